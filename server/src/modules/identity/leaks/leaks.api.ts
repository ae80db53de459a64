import { listTokenPatterns, reportLeaks } from '@bursar/contract'
import { tokenPatterns } from '../../../kernel/secrets.ts'
import { job, read, write } from '../../handlers.ts'
import { checkReporter, killLeaked, mailAppUser, mailClientOwner, mailOrganization, mailPerson } from './leaks.ts'

export const operations = [
  write(reportLeaks, async (tx, { raw, body, platform }) => {
    checkReporter(platform, raw.headers, raw.body)
    const verdicts = []
    for (const reported of body) verdicts.push(await killLeaked(tx, platform, reported))
    return verdicts
  }),
  read(listTokenPatterns, async () => ({ patterns: tokenPatterns })),
]

export const jobs = [
  job('mail.organization_token_leaked', mailOrganization),
  job('mail.personal_token_leaked', mailPerson),
  job('mail.app_token_leaked', mailAppUser),
  job('mail.client_secret_leaked', mailClientOwner),
]
