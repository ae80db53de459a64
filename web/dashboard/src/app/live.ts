import type { LiveHint } from '@bursar/contract'
import { island } from './island.ts'
import { countReads, markOutdated, refresh } from './api.ts'

/** The operations whose answers a hint about a resource makes outdated, by the beginning of their ids. */
const outdated: Readonly<Record<string, readonly string[]>> = {
  benefit: ['benefits'],
  benefit_grant: ['benefit-grants', 'access', 'orders'],
  customer: ['customers'],
  customer_seat: ['customer-seats', 'access'],
  member: ['customers', 'members'],
  order: ['orders'],
  product: ['products'],
  refund: ['orders', 'refunds'],
  subscription: ['subscriptions', 'access'],
}
/**
 * After it has read again, a screen waits this long for each of its reads, in milliseconds. So hints cause at most 400
 * requests a minute, and a third of the rate limit is left for the person.
 */
const pausePerRead = 150
/** The shortest pause. Hints of one commit arrive together and cause one read. */
const leastPause = 250
const gathering = 50
/** A tab that is hidden for longer gives up the connection. */
const hiddenFor = 30_000

const waiting = new Set<string>()
let timer: ReturnType<typeof setTimeout> | undefined
let isReading = false
let free = 0

const note = (resource: string) => {
  for (const name of [...(outdated[resource] ?? []), 'webhooks']) waiting.add(name)
  plan()
}
const plan = () => {
  // A read that runs is not started anew. Under constant hints, no answer would ever arrive.
  if (isReading || timer !== undefined || waiting.size === 0) return
  timer = setTimeout(() => void readAgain(), Math.max(gathering, free - performance.now()))
}
const readAgain = async () => {
  timer = undefined
  const names = [...waiting]
  waiting.clear()
  // A hidden screen reads when it is shown again.
  if (document.visibilityState !== 'visible') return markOutdated(...names)
  free = performance.now() + Math.max(leastPause, countReads(...names) * pausePerRead)
  isReading = true
  await refresh(...names)
  isReading = false
  plan()
}

/**
 * Follows changes in the organization. One visible tab holds the connection and tells the others, because a browser
 * opens only six connections to a server over HTTP/1.1.
 */
export const follow = (): void => {
  const name = `bursar-live-${island.organization.id}`
  const channel = new BroadcastChannel(name)
  channel.addEventListener('message', ({ data }: MessageEvent<string>) => note(data))
  let leave: (() => void) | undefined

  const listen = () =>
    new Promise<void>((resolve) => {
      const source = new EventSource(`/v1/live?organization_id=${island.organization.id}`)
      leave = () => {
        source.close()
        leave = undefined
        resolve()
      }
      source.addEventListener('hint', ({ data }: MessageEvent<string>) => {
        const { resource } = JSON.parse(data) as LiveHint
        note(resource)
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel reaches our own origin only
        channel.postMessage(resource)
      })
      // Too many hints were missed, so everything on the screen may be outdated.
      source.addEventListener('reset', () => Object.keys(outdated).forEach(note))
      // The browser connects again by itself, unless the server has refused the stream.
      source.addEventListener('error', () => {
        if (source.readyState === EventSource.CLOSED) leave?.()
      })
    })
  let asking = false
  const lead = async () => {
    if (asking || document.visibilityState !== 'visible') return
    asking = true
    await navigator.locks.request(name, listen)
    asking = false
  }
  let hiding: ReturnType<typeof setTimeout> | undefined
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding)
    if (document.visibilityState === 'visible') void lead()
    else hiding = setTimeout(() => leave?.(), hiddenFor)
  })
  void lead()
}
