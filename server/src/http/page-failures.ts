import { Failure } from '@bursar/contract'
import type { View } from '@bursar/views'
import type { FastifyRequest } from 'fastify'
import { pageInstead, type SellerLook } from '../modules/handlers.ts'
import { answerFailure, type FailedAnswer } from './failures.ts'

/** Least seconds until a page loads itself again after a server error, so that the visitors do not all return at once. */
const outageWait = 5

/** True if the client prefers HTML to JSON, as browsers do. Programs that accept anything get JSON. */
export const prefersHtml = ({ headers: { accept = '' } }: Pick<FastifyRequest, 'headers'>): boolean => {
  const weightOf = (type: string): number => {
    const range = accept.split(',').find((one) => one.split(';')[0]!.trim().toLowerCase() === type)
    if (range === undefined) return 0
    const [, weight = '1'] = /;\s*q=([\d.]+)/i.exec(range) ?? []
    return Number(weight)
  }
  return weightOf('text/html') > 0 && weightOf('text/html') >= weightOf('application/json')
}

/** True for addresses of a person's account, which belong to no seller. */
const isAccount = (url: string) => /^\/(login|logout|settings|oauth2|mailbox|preferences|docs)\b/.test(url)

/** Builds the page about an error. `form` is the form that was not handled, so that the page can send it again. */
export const problemView = (
  request: Pick<FastifyRequest, 'id' | 'raw' | 'method'>,
  {
    status,
    error,
    description = '',
    retry_after = null,
    form = null,
  }: Pick<Problem, 'status' | 'error'> & Partial<Pick<Problem, 'description' | 'retry_after' | 'form'>>,
): Problem => ({
  kind: 'problem',
  status,
  error,
  description,
  request_id: request.id,
  retry_after,
  form,
  // After a server error, a person decides whether to send the form again.
  again: status >= 500 && request.method !== 'POST',
  visitor: !isAccount(request.raw.url ?? ''),
})
type Problem = Extract<View, { kind: 'problem' }>

/** Turns a thrown error into the page that a browser sees. An error may bring its own page. */
export const failedPage = (
  error: unknown,
  request: Pick<FastifyRequest, 'id' | 'raw' | 'method'>,
  fields: Problem['form'] = null,
): FailedAnswer & { readonly view: View; readonly script: boolean; readonly seller?: SellerLook | null } => {
  const failed = answerFailure(error)
  const own = error instanceof Failure ? pageInstead.get(error) : undefined
  if (own) return { ...failed, ...own, script: false }
  const { error: name = 'error', detail } = failed.body as { error?: string; detail?: unknown }
  const given = failed.headers['retry-after']
  const wait = given === undefined ? null : Math.max(failed.status >= 500 ? outageWait : 1, Math.ceil(Number(given)))
  // A form is sent again by itself only after a rate limit, because then nothing has happened yet.
  const retry_after = request.method !== 'POST' || (fields !== null && failed.status === 429) ? wait : null
  const description = typeof detail === 'string' ? detail : ''
  const view = problemView(request, {
    status: failed.status,
    error: name,
    description,
    retry_after,
    form: failed.status === 429 || failed.status >= 500 ? fields : null,
  })
  // The header says what the page does.
  const headers = wait === null ? failed.headers : { ...failed.headers, 'retry-after': String(wait) }
  return { ...failed, headers, view, script: retry_after !== null }
}
