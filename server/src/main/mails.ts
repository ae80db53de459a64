import { bursar } from '../kernel/command-name.ts'
import { readBytes } from '../gateways/mail/reports.ts'
import { allowSender, clearSuppression, listSuppressed, readSender, receiveReport } from '../modules/organizations/index.ts'
import { withDatabase } from './database.ts'
import { needOrganization } from './organization.ts'
import { print } from './print.ts'
import { Usage } from './usage.ts'

interface Values {
  json?: boolean | undefined
  organization?: string | undefined
  clear?: string | undefined
}

const mostListed = 1000
/** The exit status `EX_TEMPFAIL` of sysexits. A mail server keeps the message and tries again. */
const tryAgain = 75

export const mails = async ([action]: readonly string[], values: Values): Promise<void> => {
  if (action === 'receive') return receive(values)
  if (action === 'suppressed') return values.clear === undefined ? list(values) : clear(values, values.clear)
  throw new Usage('mails takes receive or suppressed')
}

/** Sets the sender address of an organization's mails. The operator decides it, so that no seller can send in the name of a stranger. */
export const sender = async (given: string | undefined, { organization: slug, ...values }: Values): Promise<void> => {
  if (!slug) throw new Usage('--organization is needed')
  const address = given === 'default' ? null : readSender(given ?? '')
  if (address === undefined) throw new Usage('operator sender takes an e-mail address, or the word default')
  return withDatabase('operator sender', async ({ db, transact }) => {
    const organization = await needOrganization(db, slug)
    await transact((tx) => allowSender(tx, organization, address))
    print(
      values,
      { organization: slug, sender_address: address },
      address === null
        ? `${slug} sends with the address of this deployment`
        : `${slug} sends as ${address}. Your mail server must sign with DKIM for its domain: run ${bursar} doctor`,
    )
  })
}

/**
 * Records the report on standard input. Messages that are ignored end with status 0, because otherwise the mail server would answer
 * them with a bounce. If a report cannot be recorded now, the status asks the mail server to try again.
 */
const receive = async (values: Values): Promise<void> => {
  const raw = await readInput()
  try {
    const received = await withDatabase('mails receive', (deps) => receiveReport(deps, raw))
    print(values, received, 'ignored' in received ? `ignored: ${received.ignored}` : `recorded for mail ${received.mail_id}: ${received.kind}`)
  } catch (error) {
    process.stderr.write(`bursar: the report was not recorded: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = tryAgain
  }
}

/** Reads the first part of standard input. Drains the rest, so that the writer sees no broken pipe. */
const readInput = async (): Promise<Buffer> => {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    if (length < readBytes) chunks.push(chunk)
    length += chunk.length
  }
  return Buffer.concat(chunks)
}

const list = (values: Values): Promise<void> =>
  withDatabase('mails suppressed', async ({ db }) => {
    if (values.organization !== undefined) await needOrganization(db, values.organization)
    const suppressed = await listSuppressed(db, values.organization, mostListed)
    const lines = suppressed.map(({ organization, address, kind, created_at, diagnostic }) =>
      `${created_at.toISOString().slice(0, 10)}  ${kind.padEnd(9)}  ${organization ?? '(deployment)'}  ${address}  ${diagnostic ?? ''}`.trimEnd(),
    )
    print(values, { suppressed }, lines.length === 0 ? 'mails to all addresses are sent' : lines.join('\n'))
  })

const clear = (values: Values, address: string): Promise<void> =>
  withDatabase('mails suppressed', async ({ db, transact }) => {
    if (values.organization !== undefined) await needOrganization(db, values.organization)
    const cleared = await transact((tx) => clearSuppression(tx, values.organization, address))
    if (cleared === 0) throw new Usage(`mails to ${address} are not suppressed`)
    print(values, { cleared }, `mails to ${address} are sent again`)
  })
