import type { Frame, Locale, View } from '@bursar/views'
import type { Render } from '../../../src/http/pages.ts'
import { expect } from 'vitest'
import { openContext, type Browser, type Page } from '../../harness/browser.ts'
import { toPseudo } from '../../harness/pseudo.ts'
import type { World } from '../../harness/world.ts'

/** The languages in which a recorded page is shown. `pseudo` exists only in tests. */
export type Language = Locale | 'pseudo'

interface Seen {
  readonly view: View
  readonly frame: Frame
}

/** Records each page that the server renders, and renders a recorded page again in another language. */
export const openRecorder = () => {
  let last: Seen | undefined
  let again: ((render: Render) => string) | undefined
  const rendering =
    (render: Render): Render =>
    (view, frame) => {
      if (again) return again(render)
      last = { view, frame }
      return render(view, frame)
    }
  return {
    rendering,
    last: (): Seen => {
      if (!last) throw new Error('The server has rendered no page yet.')
      return last
    },
    /** The next page that the server renders is this one, in this language. */
    show: ({ view, frame }: Seen, language: Language) => {
      again = (render) => {
        again = undefined
        return render(view, {
          ...frame,
          theme: 'system',
          locale: language === 'pseudo' ? 'en' : language,
          ...(language === 'pseudo' ? { translate: toPseudo } : {}),
        })
      }
    },
  }
}
export type Recorder = ReturnType<typeof openRecorder>

/**
 * Opens a second browser page, which shows recorded pages. It gets them from the server at an address of ours, with the
 * security policy of the original page. It sends no form and loads nothing by itself.
 */
export const openMirror = async (browser: Browser, world: World, recorder: Recorder) => {
  const { context, violations, close } = await openContext(browser, world)
  const page = await context.newPage()
  const address = `${world.config.public_url.origin}/login`
  let policy = ''
  let isExpected = false
  await page.route('**/*', async (route) => {
    const request = route.request()
    if (!request.isNavigationRequest()) return ['fetch', 'xhr'].includes(request.resourceType()) ? route.abort() : route.continue()
    if (request.url() !== address || !isExpected) return route.abort('aborted')
    isExpected = false
    const response = await route.fetch()
    const body = (await response.text()).replaceAll(/<meta http-equiv="refresh"[^>]*>| data-(?:refresh|wait)="\d+"/g, '')
    await route.fulfill({ response, body, headers: { ...response.headers(), ...(policy === '' ? {} : { 'content-security-policy': policy }) } })
  })
  return {
    page,
    violations,
    close,
    show: async (seen: Seen, language: Language, original: string) => {
      policy = original
      recorder.show(seen, language)
      isExpected = true
      const answer = await page.goto(address, { waitUntil: 'load' })
      expect(answer?.status()).toBe(200)
    },
  }
}
export type Mirror = Awaited<ReturnType<typeof openMirror>>

/** Returns the content security policy of the page's document, as it arrived last. */
export const policiesOf = (page: Page): (() => string) => {
  let policy = ''
  page.on('response', (response) => {
    // Samples of mails stand in frames, which have a policy of their own.
    if (response.request().isNavigationRequest() && response.frame() === page.mainFrame()) policy = response.headers()['content-security-policy'] ?? policy
  })
  return () => policy
}
