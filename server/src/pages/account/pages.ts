import type { Page } from '../../modules/handlers.ts'
import type { PageDeps } from './deps.ts'
import { accountPages } from './account.page.ts'
import { consentPages } from './consent.page.ts'
import { dashboardPages } from './dashboard.page.ts'
import { docsPages } from './docs.page.ts'
import { invitationPages } from './invitation.page.ts'
import { signInPages } from './sign-in.page.ts'

/** The pages for sign-in, consent to apps, tokens and security settings. */
export const pagesOf = (deps: PageDeps): Page[] => [
  ...signInPages(deps),
  ...consentPages(deps),
  ...accountPages(deps),
  ...invitationPages(deps),
  ...dashboardPages(deps),
  ...docsPages(deps.platform),
]
