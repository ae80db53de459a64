import type { Page } from '../../handlers.ts'
import type { PageMeans } from './means.ts'
import { accountPages } from './account.page.ts'
import { consentPages } from './consent.page.ts'
import { signInPages } from './sign-in.page.ts'

/** The pages on which people sign in, decide what apps may do, and look after their tokens. */
export const pagesOf = (means: PageMeans): Page[] => [...signInPages(means), ...consentPages(means), ...accountPages(means)]
