import { connect, Refused, type Input } from '@bursar/contract/client'
import type { Operation, Received } from '@bursar/contract/kit'
import { keepPreviousData, QueryClient, queryOptions, useMutation, useQuery, type UseMutationResult } from '@tanstack/react-query'
import { island } from './island.ts'
import { obstacle } from './waiting.ts'

/** The server could not be reached. A read is repeated when the network is back. */
export class Unreachable extends Error {}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

let signedIn: PromiseWithResolvers<void> | undefined
/** Waits until the person has signed in again. Pages and forms stay as they are meanwhile. */
const untilSignedIn = (): Promise<void> => {
  if (signedIn === undefined) {
    signedIn = Promise.withResolvers()
    obstacle.set({ kind: 'lapsed' })
  }
  return signedIn.promise
}

/** Asks whether the session of this browser is valid again. If so, all waiting requests go on. */
export const tryAgain = async (): Promise<boolean> => {
  const answer = await fetch('/v1/users/me', { credentials: 'same-origin' }).catch(() => undefined)
  if (answer?.status !== 200) return false
  // Another person may have signed in. Their data must not appear beside those of the first one.
  const { id } = (await answer.json()) as { id: string }
  if (id !== island.person.id) location.reload()
  obstacle.set(null)
  signedIn?.resolve()
  signedIn = undefined
  return true
}

let confirmed: PromiseWithResolvers<boolean> | undefined
/** Waits until the person has confirmed the sign-in with a code, or has closed the dialog. */
const untilConfirmed = (): Promise<boolean> => {
  if (confirmed === undefined) {
    confirmed = Promise.withResolvers()
    obstacle.set({ kind: 'stale' })
  }
  return confirmed.promise
}
/** Ends the waiting for a code. With `true`, the refused requests are sent again with the same idempotency key. */
export const endConfirming = (done: boolean): void => {
  obstacle.set(null)
  confirmed?.resolve(done)
  confirmed = undefined
}
const isStale = async (answer: Response): Promise<boolean> =>
  answer.status === 403 && ((await answer.clone().json()) as { error?: string }).error === 'SessionNotFreshError'

/** The most times that a request waits for the rate limit. */
const mostWaits = 5

const send = async (method: string, url: string, headers: Record<string, string>, body: string | undefined): Promise<Response> => {
  for (let waits = 0; ;) {
    const answer = await fetch(url, {
      method,
      headers: { ...headers, 'bursar-organization': island.organization.id, ...(method === 'GET' ? {} : { 'bursar-csrf': '1' }) },
      credentials: 'same-origin',
      ...(body === undefined ? {} : { body }),
    }).catch(() => {
      obstacle.set({ kind: 'offline' })
      throw new Unreachable()
    })
    if (obstacle.get()?.kind === 'offline') obstacle.set(null)
    if (answer.status === 401) await untilSignedIn()
    else if (answer.status === 429 && waits < mostWaits) {
      waits++
      const milliseconds = Math.max(1, Number(answer.headers.get('retry-after') ?? 1)) * 1000
      obstacle.set({ kind: 'limited', until: Date.now() + milliseconds })
      await pause(milliseconds)
      if (obstacle.get()?.kind === 'limited') obstacle.set(null)
    } else if (!((await isStale(answer)) && (await untilConfirmed()))) return answer
  }
}

export const api = connect(async ({ method, url, headers, body }) => {
  const answer = await send(method, url, headers, body)
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
})

/** Streams a file, with the whole number of its lines from the header. */
export const download = (url: string): Promise<Response> => send('GET', url, {}, undefined)

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      retry: (count, error) => error instanceof Unreachable && count < 3,
      refetchOnWindowFocus: true,
    },
  },
})

/** The key and the function of a query. One operation and input have one key everywhere. */
export const query = <O extends Operation>(operation: O, input: Input<O>) =>
  queryOptions({ queryKey: [operation.id, input], queryFn: (): Promise<Received<O>> => api.call(operation, input) })

export interface Read<T> {
  readonly data: T | undefined
  readonly error: Error | null
  readonly isPlaceholder: boolean
  readonly again: () => void
}

/** Reads an operation. While the input changes, the answer to the previous input stays. */
export const useRead = <O extends Operation>(
  operation: O,
  input: Input<O>,
  options: { readonly enabled?: boolean; readonly every?: number } = {},
): Read<Received<O>> => {
  const { data, error, isPlaceholderData, refetch } = useQuery({
    ...query(operation, input),
    placeholderData: keepPreviousData,
    enabled: options.enabled ?? true,
    ...(options.every === undefined ? {} : { refetchInterval: options.every }),
  })
  return { data: data, error, isPlaceholder: isPlaceholderData, again: () => void refetch() }
}

const answersOf = (resources: readonly string[]) => ({
  predicate: ({ queryKey: [id] }: { readonly queryKey: readonly unknown[] }) => resources.some((one) => String(id).startsWith(`${one}:`)),
})

/** Marks the answers of operations as outdated, and reads again what the screen shows. The names are resources, such as `orders`. */
export const refresh = (...resources: readonly string[]): Promise<void> => queries.invalidateQueries(answersOf(resources))

/** Marks the answers as outdated. They are read again when the tab is shown. */
export const markOutdated = (...resources: readonly string[]): Promise<void> => queries.invalidateQueries({ ...answersOf(resources), refetchType: 'none' })

/** Counts the reads that `refresh` would cause. */
export const countReads = (...resources: readonly string[]): number => queries.getQueryCache().findAll({ ...answersOf(resources), type: 'active' }).length

/** Returns a key that makes a repeated request have one effect. */
export const newKey = (): string => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')

/** Changes something by an operation, then reads the named resources again. */
export const useChange = <O extends Operation>(operation: O, resources: readonly string[]): UseMutationResult<Received<O>, Error, Input<O>> =>
  useMutation({ mutationFn: (input: Input<O>) => api.call(operation, input), onSuccess: () => refresh(...resources) })

/** Returns the status and the text of a failed request, with the id under which the server has logged it. */
export const reasonOf = (error: Error): { status: number; name: string; detail: string; request_id: string | null; wait: number | null } => {
  if (!(error instanceof Refused)) return { status: 0, name: '', detail: '', request_id: null, wait: null }
  const { status, headers, body } = error.reply
  const wait = headers.get('retry-after')
  return {
    status,
    name: body.error ?? '',
    detail: typeof body.detail === 'string' ? body.detail : '',
    request_id: headers.get('x-request-id'),
    wait: wait === null ? null : Number(wait),
  }
}
