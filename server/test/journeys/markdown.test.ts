import { render, renderMail } from '@bursar/web'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openBrowser, type Browser, type Page } from '../harness/browser.ts'
import { checkoutOf, frameIn } from '../harness/offers.ts'

// Texts of sellers as Markdown: on pages, in mails and in link previews. A browser reads the pages, because only a browser
// decides what an attack does.

const frame = frameIn('en')
const previewOf = (description: string) =>
  render({ kind: 'link-preview', seller: 'Northwind', product: { name: 'Plan', description, image: null }, to: '/checkout' }, frame)

/** The checkout page with the text as description of the product, and as label and help of a field of each kind. */
const checkoutWith = (source: string) => {
  const view = checkoutOf({
    currency: 'usd',
    price: 1000,
    seats: null,
    interval: null,
    interval_count: 1,
    trial_days: 0,
    discount: null,
    rate: null,
    behavior: 'exclusive',
    usage: false,
  })
  const fields = ['text', 'number', 'date', 'select', 'checkbox'].map((type) => ({
    required: true,
    custom_field: { slug: type, type, name: 'Question', properties: { form_label: source, form_help_text: source, options: [] } },
  }))
  return render(
    {
      ...view,
      offer: { ...view.offer, product: { ...view.offer.product!, description: source }, attached_custom_fields: fields } as never,
      complaints: [{ loc: ['body', 'custom_field_data', 'text'], type: 'value_error', msg: 'Wrong' }],
    },
    frame,
  )
}

let browser: Browser
let page: Page
const scripts: string[] = []
beforeAll(async () => {
  browser = await openBrowser()
  page = await browser.newPage()
  page.on('dialog', (dialog) => {
    scripts.push(dialog.message())
    void dialog.dismiss()
  })
  page.on('pageerror', (error) => scripts.push(error.message))
})
afterAll(() => browser.close())

/** Shows the page in the browser, without a policy that would stop scripts. */
const show = async (html: string) => page.setContent(html.replaceAll(/<(?:link|script)\b[^>]*>(?:<\/script>)?/g, ''))

interface Element {
  readonly name: string
  readonly attributes: Record<string, string>
}
/** Returns all elements within those that match the selector, with their attributes. */
const elementsIn = (selector: string): Promise<Element[]> =>
  page.evaluate(
    `[...document.querySelectorAll(${JSON.stringify(selector)})].flatMap((one) => [...one.querySelectorAll('*')]).map((one) => ({ name: one.localName, attributes: Object.fromEntries([...one.attributes].map(({ name, value }) => [name, value])) }))`,
  )
const htmlOf = (selector: string): Promise<string> => page.locator(selector).first().innerHTML()

const allowed = ['p', 'ul', 'ol', 'li', 'strong', 'em', 'code', 'a', 'br']
const expectSafe = (elements: readonly Element[]) => {
  for (const { name, attributes } of elements) {
    expect(allowed).toContain(name)
    if (name === 'a') {
      expect(Object.keys(attributes).toSorted()).toEqual(['href', 'rel', 'target'])
      expect(attributes.href).toMatch(/^(https?:\/\/|mailto:)/)
      expect([attributes.rel, attributes.target]).toEqual(['nofollow noopener', '_blank'])
    } else expect(Object.keys(attributes)).toEqual(name === 'ol' ? ['start'] : [])
  }
}

/** Attacks that sellers of other shops have found, or that a parser of Markdown invites. */
const attacks = [
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  '<svg/onload=alert(1)>',
  '<a href="javascript:alert(1)">x</a>',
  '<iframe srcdoc="<script>parent.alert(1)</script>">',
  '<style>*{display:none}</style>',
  '<base href="https://evil.example/">',
  '<form action="https://evil.example/"><input name=card>',
  '</p></div></main><script>alert(1)</script>',
  '<!-- --><script>alert(1)</script>',
  '<![CDATA[<script>alert(1)</script>]]>',
  '[x](javascript:alert(1))',
  '[x](JaVaScRiPt:alert(1))',
  '[x](java\nscript:alert(1))',
  '[x](java&#9;script:alert(1))',
  '[x](java&Tab;script:alert(1))',
  '[x](&#x6A;avascript&colon;alert(1))',
  '[x](\u0001javascript:alert(1))',
  '[x](<javascript:alert(1)>)',
  '[x](javascript://example.com/%0aalert(1))',
  '[x](data:text/html,<script>alert(1)</script>)',
  '[x](data:image/svg+xml;base64,PHN2Zy8+)',
  '[x](vbscript:msgbox(1))',
  '[x](file:///etc/passwd)',
  '[x](blob:https://evil.example/1)',
  '[x](//evil.example/)',
  '[x](/logout)',
  '[x](#payment)',
  '[x](https://evil.example/"onmouseover="alert(1))',
  "[x](https://evil.example/ 'onmouseover=alert(1)')",
  '[x](https://evil.example/ "t\\" onmouseover=alert(1) x=\\"")',
  '[<img src=x onerror=alert(1)>](https://example.com)',
  '[![x](https://evil.example/pixel.png)](https://example.com)',
  '![x](https://evil.example/pixel.png)',
  '![x](javascript:alert(1))',
  '![<script>alert(1)</script>](x)',
  '<javascript:alert(1)>',
  '<https://example.com/"onclick="alert(1)>',
  '`</code><script>alert(1)</script>`',
  '**<b onclick=alert(1)>x</b>**',
  '&lt;script&gt;alert(1)&lt;/script&gt;',
  '&#60;script&#62;alert(1)&#60;/script&#62;',
  '[x]: javascript:alert(1)\n\n[x]',
  '# <script>alert(1)</script>',
  '```html\n<script>alert(1)</script>\n```',
  '| <script>alert(1)</script> |\n|-|\n| x |',
  '\u202E[x](https://example.com)',
  '{{constructor.constructor("alert(1)")()}}',
]

test('renders paragraphs, headings, emphasis, lists, links and code, and leaves everything else as text', async () => {
  await show(
    previewOf(
      '# Studio\n\nFor **teams** and *friends*, with `code`.\nA second line.\n\n- one\n- two\n\n3. three\n\n[Terms](https://example.com/terms?a=1&b=2) <mailto:help@example.com> ![A fox](https://example.com/fox.png) <b>bold</b> ~~gone~~',
    ),
  )
  expect(await htmlOf('.markdown')).toBe(
    '<p><strong>Studio</strong></p><p>For <strong>teams</strong> and <em>friends</em>, with <code>code</code>.\nA second line.</p>' +
      '<ul><li>one</li><li>two</li></ul><ol start="3"><li>three</li></ol>' +
      '<p><a href="https://example.com/terms?a=1&amp;b=2" target="_blank" rel="nofollow noopener">Terms</a> ' +
      '<a href="mailto:help@example.com" target="_blank" rel="nofollow noopener">mailto:help@example.com</a> A fox &lt;b&gt;bold&lt;/b&gt; ~~gone~~</p>',
  )
})

test('renders no attack as an element, a link or an attribute, on the preview, the checkout and in mails', async () => {
  for (const attack of attacks) {
    await show(previewOf(attack))
    expectSafe(await elementsIn('.markdown'))
    await show(checkoutWith(attack))
    expectSafe(await elementsIn('.markdown, .field > label:not(.choice), .choice > span, .field > .soft'))
    expect(await page.locator('main :is(script, iframe, style, base, object, img, svg)').count()).toBe(0)
    // Presses every link, and moves the pointer over it.
    await page.evaluate(`for (const one of document.querySelectorAll('.markdown a')) one.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }))`)
  }
  expect(scripts).toEqual([])
})

test('renders random mixtures of marks and attacks only as allowed elements', async () => {
  const piece = fc.constantFrom(
    '[',
    ']',
    '(',
    ')',
    '*',
    '**',
    '_',
    '`',
    '\n',
    '\n\n',
    '- ',
    '1. ',
    '# ',
    '<',
    '>',
    '"',
    '\\',
    '&',
    ' ',
    'a',
    'https://x.example',
    ...attacks,
  )
  const texts = fc.sample(fc.array(piece, { minLength: 1, maxLength: 30 }), { numRuns: 300, seed: 50 }).map((pieces) => pieces.join(''))
  const inner = texts.map((text) => /<div class="markdown">.*?<\/div>(?=<a class="button")/s.exec(previewOf(text))![0])
  await show(`<!doctype html>${inner.join('')}`)
  expect(await page.locator('.markdown').count()).toBe(texts.length)
  expectSafe(await elementsIn('.markdown'))
  expect(scripts).toEqual([])
})

test('takes a time that grows with the length of the text for hostile texts, and reads at most 10,000 characters', () => {
  const fill = (piece: string) => piece.repeat(Math.ceil(10_000 / piece.length)).slice(0, 10_000)
  const hostile = [
    '[',
    '![',
    '*a ',
    '**x *y ',
    '`',
    '>',
    '[a](',
    '[a](<',
    '<a ',
    '__a',
    'a_',
    '\\',
    '&',
    '1. a\n',
    '- ',
    '<http://a>',
    '[a](b "',
    '*',
    '# ',
    '\n',
  ].map(fill)
  previewOf(hostile[0]!)
  for (const text of hostile) {
    const begin = process.cpuUsage()
    previewOf(text)
    const { user, system } = process.cpuUsage(begin)
    // A quadratic parser takes seconds for such a text.
    expect([text.slice(0, 8), (user + system) / 1e6 < 1]).toEqual([text.slice(0, 8), true])
  }
  expect(previewOf(`${'a'.repeat(10_000)}beyond`)).not.toContain('beyond')
})

test('renders 20 levels of emphasis, and deeper levels as text', async () => {
  const depthOf = (selector: string): Promise<number> =>
    page.evaluate(
      `Math.max(...[...document.querySelectorAll(${JSON.stringify(selector)})].map((one) => { let depth = 0; for (; one.closest('strong, em'); one = one.parentElement) if (one.matches('strong, em')) depth++; return depth }))`,
    )
  for (const [stars, depth] of [
    [4900, 20],
    [40, 20],
    [38, 19],
  ] as const) {
    const nested = `${'*'.repeat(stars)}deep${'*'.repeat(stars)}`
    expect(previewOf(nested)).toContain('content="deep"')
    await show(checkoutWith(nested))
    expect(await depthOf('.markdown *')).toBe(depth)
    expect(await page.locator('.markdown').first().innerText()).toBe('deep')
  }
  const many = '*a **b '.repeat(1000) + '** c*'.repeat(1000)
  await show(checkoutWith(many))
  expect(await depthOf('.markdown *')).toBe(20)
  expect(scripts).toEqual([])
})

test('names fields in errors, and describes link previews, without marks', async () => {
  await show(checkoutWith('I accept the **[terms](https://example.com/terms)**'))
  expect(await page.locator('#wrong li').innerText()).toMatch(/^I accept the terms: /)
  expect(await page.locator('.choice a').getAttribute('href')).toBe('https://example.com/terms')
  const long = `**Studio** [plan](https://example.com)\n\n- ${'word '.repeat(60)}`
  await show(previewOf(long))
  const described = await page.locator('meta[property="og:description"]').getAttribute('content')
  expect(described).toMatch(/^Studio plan word (word )*word…$/)
  expect(described!.length).toBeLessThanOrEqual(200)
  await show(previewOf('"><script>alert(1)</script>'))
  expect(await page.locator('meta[property="og:description"]').getAttribute('content')).toBe('"><script>alert(1)</script>')
  expect(scripts).toEqual([])
})

test('writes the note of a benefit into mails, as HTML and as text', async () => {
  const note = 'Join us on **Monday**:\n\n- [the room](https://example.com/room)\n- <script>alert(1)</script>\n\n[x](javascript:alert(1))'
  const { html, text } = renderMail(
    {
      kind: 'free_order',
      description: 'Handbook',
      date: new Date('2026-11-18T09:30:00Z'),
      picture: null,
      benefits: [{ description: 'Workshop', note, keys: [], files: [] }],
      more_to_come: false,
      access_url: 'https://example.com/access',
    },
    { locale: 'en', seller: null, logo_url: null, sandbox: false },
  )
  expect(text).toContain(
    '- Workshop\n  Join us on Monday:\n\n  - the room (https://example.com/room)\n  - <script>alert(1)</script>\n\n  [x](javascript:alert(1))',
  )
  await show(html)
  expect(await page.locator('a[href="https://example.com/room"]').innerText()).toBe('the room')
  expect(await page.locator('script, a[href^="javascript"]').count()).toBe(0)
  expect(scripts).toEqual([])
})
