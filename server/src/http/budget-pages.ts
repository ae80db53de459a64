import { AsyncLocalStorage } from 'node:async_hooks'
import type { FastifyRequest } from 'fastify'
import { networkOf } from '../kernel/networks.ts'
import { randomText, sameText, Secret } from '../kernel/secrets.ts'
import type { Platform } from '../modules/handlers.ts'
import { hostCookie, readCookie, setCookie } from '../modules/identity/index.ts'
import { days, minutes, seconds } from '../platform/clock.ts'
import type { Budgets, Charge } from './budget.ts'

/** The budget of one page view. The calls of the API that the page makes in this process are charged to it as well. */
export interface PageBudget {
  /** Charges the page view. Throws if the budget does not suffice for a whole page. */
  readonly admit: () => Promise<Record<string, string>>
  /** Charges one call of the API. Throws if the budget is used up. */
  readonly call: () => Promise<Record<string, string>>
  /** The cookie that begins a page session. Undefined if the browser has one. */
  readonly cookie: string | undefined
}

/** Units that must remain when a page view begins. Ordinary pages make at most ten calls, so they are not cut off. */
const wholePage = 100
/** After this time, a page session no longer counts as new. */
const newFor = 1 * minutes
const sessionLife = 1 * days

/**
 * Opens the budgets of page views. A page session is a browser with a signed cookie. It is charged to its own budget,
 * and to one of two budgets of its address: one for new sessions, one for all others. A browser without a valid cookie
 * gets a new session with each request, so dropping the cookie leads to the budget of new sessions. An attacker who
 * uses it up does not stop the other people at the same address, whose sessions are older.
 */
export const openPageBudgets = ({ config, hasher, clock }: Platform, budgets: Budgets) => {
  const cookie = hostCookie(config, 'page')
  const signatures = (session: string) => hasher.candidates(new Secret(`page session ${session}`))

  /** Reads the page session of a request. The signature proves when the session began, and that we issued it. */
  const sessionOf = ({ raw }: FastifyRequest, now: number): { id: string; age: number } | undefined => {
    const [, id = '', began = '', signature = ''] =
      /^(([0-9a-z]{1,11})\.[0-9a-z]{20})\.([0-9a-f]{64})$/.exec(readCookie(raw.headers.cookie, cookie) ?? '') ?? []
    if (id === '' || !signatures(id).some((own) => sameText(own, signature))) return undefined
    const age = now - parseInt(began, 36)
    return age < sessionLife ? { id, age } : undefined
  }

  return {
    budgetOf: (request: FastifyRequest): PageBudget => {
      const now = clock.wall().getTime()
      const known = sessionOf(request, now)
      const id = known?.id ?? `${now.toString(36)}.${randomText(20, 'abcdefghijklmnopqrstuvwxyz234567')}`
      const isNew = known === undefined || known.age < newFor
      const charges: readonly Charge[] = [
        { name: 'page_session', who: id },
        { name: isNew ? 'new_page_sessions' : 'page_address', who: networkOf(request.ip) },
      ]
      return {
        admit: () => budgets.spendTogether(charges, wholePage),
        call: () => budgets.spendTogether(charges),
        cookie: known ? undefined : setCookie(config, cookie, `${id}.${signatures(id)[0]!}`, sessionLife / seconds),
      }
    },
  }
}
export type PageBudgets = ReturnType<typeof openPageBudgets>

/**
 * The budget of the page on whose behalf a request runs in this process. Requests from outside have none, so they are
 * charged to the limits of the API.
 */
export const pageOfCall = new AsyncLocalStorage<PageBudget>()
