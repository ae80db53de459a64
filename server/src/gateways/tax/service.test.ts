import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openTaxStandIn, type Quoted, type TaxStandIn } from '../../../test/harness/tax-service.ts'
import { eventually, openClock } from '../../../test/harness/world.ts'
import { Secret } from '../../kernel/secrets.ts'
import { openEgress, outOfTime, type Egress } from '../egress/egress.ts'
import { openTaxService } from './service.ts'
import { taxCode, TaxUnavailable, type ServiceQuestion, type TaxedSale, type TaxService } from './tax.ts'

const clock = openClock()
let standIn: TaxStandIn
let egress: Egress
let service: TaxService
let hasty: TaxService
beforeAll(async () => {
  standIn = await openTaxStandIn(clock)
  egress = openEgress({ loopback: true, dns_servers: undefined, own_host: 'bursar.test' }, clock)
  const { BURSAR_TAX_URL: url, BURSAR_TAX_TOKEN: token } = standIn.settings
  const open = (timeout_ms: number) => openTaxService({ url: new URL(url), token: new Secret(token), timeout_ms }, egress, clock)!
  ;[service, hasty] = [open(20_000), open(50)]
})
afterEach(() => {
  standIn.behave()
  standIn.release()
})
afterAll(async () => {
  egress.close()
  await standIn.close()
})

const question = (given: Partial<ServiceQuestion> = {}): ServiceQuestion => ({
  organization_id: 'o',
  subject: 'checkout',
  currency: 'usd',
  lines: [
    { reference: '1', amount: 10_000, tax_code: taxCode },
    { reference: '2', amount: -1000, tax_code: taxCode },
  ],
  address: { country: 'US', state: 'NY', city: 'New York', postal_code: '10001', line1: '1 Main Street', line2: null },
  tax_id: null,
  behavior: 'exclusive',
  fingerprint: 'f'.repeat(64),
  ...given,
})
const share = (jurisdiction: string, rate: number, tax_amount: number) => ({ jurisdiction, rate, tax_amount, reason: 'standard_rated' })

test('sends the whole question and returns the tax of each line per jurisdiction', async () => {
  const quote = (await service.quote(question()))!
  expect(standIn.questions().at(-1)).toEqual(question())
  expect(quote).toMatchObject({ fingerprint: question().fingerprint, behavior: 'exclusive' })
  expect(standIn.books.quotes.has(quote.id)).toBe(true)
  expect(quote.lines).toEqual([
    { ...question().lines[0], taxes: [share('US-NY', 40_000, 400), share('US-NY-NYC', 45_000, 450)] },
    { ...question().lines[1], taxes: [share('US-NY', 40_000, -40), share('US-NY-NYC', 45_000, -45)] },
  ])
})

test('returns null if the address is not sufficient', async () => {
  expect(await service.quote(question({ address: { country: 'US', state: null } }))).toBeNull()
})

test('reads an answer for hundreds of lines', async () => {
  const lines = Array.from({ length: 400 }, (_, at) => ({ ...question().lines[0]!, reference: String(at + 1), amount: 100 * at }))
  expect((await service.quote(question({ lines })))!.lines).toHaveLength(400)
})

type Change = (answer: Quoted) => unknown
const taxes = (answer: Quoted, change: (tax: Quoted['lines'][number]['taxes'][number]) => object) => ({
  ...answer,
  lines: answer.lines.map((line) => ({ ...line, taxes: line.taxes.map((tax) => ({ ...tax, ...change(tax) })) })),
})
test.each<[string, Change]>([
  ['text that is not JSON', () => 'taxes: 3 %'],
  ['an empty object', () => ({})],
  ['the answer to another question', (answer) => ({ ...answer, fingerprint: 'e'.repeat(64) })],
  ['an expired quote', (answer) => ({ ...answer, expires_at: '2020-01-01T00:00:00Z' })],
  ['the other tax behavior', (answer) => ({ ...answer, behavior: 'inclusive' })],
  ['a missing line', (answer) => ({ ...answer, lines: answer.lines.slice(1) })],
  ['a line twice', (answer) => ({ ...answer, lines: [answer.lines[0], answer.lines[0]] })],
  ['an unknown line', (answer) => ({ ...answer, lines: [answer.lines[0], { ...answer.lines[1], reference: '3' }] })],
  ['a line without any tax', (answer) => ({ ...answer, lines: [answer.lines[0], { ...answer.lines[1], taxes: [] }] })],
  ['a fraction of a cent', (answer) => taxes(answer, ({ tax_amount }) => ({ tax_amount: tax_amount + 0.5 }))],
  ['a tax as text', (answer) => taxes(answer, ({ tax_amount }) => ({ tax_amount: String(tax_amount) }))],
  ['a tax with the wrong sign', (answer) => taxes(answer, ({ tax_amount }) => ({ tax_amount: 0 - tax_amount }))],
  ['more tax than the rate', (answer) => taxes(answer, ({ tax_amount }) => ({ tax_amount: tax_amount * 2 }))],
  ['a rate above 100 %', (answer) => taxes(answer, () => ({ rate: 1_000_001 }))],
  ['rates that add up to more than 100 %', (answer) => taxes(answer, () => ({ rate: 600_000 }))],
  ['no tax in spite of a rate', (answer) => taxes(answer, () => ({ tax_amount: 0 }))],
  ['a tax in spite of an exemption', (answer) => taxes(answer, () => ({ reason: 'customer_exempt' }))],
  ['an unknown reason', (answer) => taxes(answer, () => ({ reason: 'because' }))],
  ['a jurisdiction with a control character', (answer) => taxes(answer, () => ({ jurisdiction: 'US\n' }))],
])('refuses %s', async (_, change) => {
  standIn.misbehave(() => change)
  await expect(service.quote(question())).rejects.toThrow(TaxUnavailable)
})

test.each([
  [1500, true],
  [1597, true],
  [1600, false],
  [1900, false],
])('accepts an inclusive tax of %i on 100.00 at a rate of 19 % only if it fits the rate: %s', async (tax_amount, fits) => {
  const german = question({ address: { country: 'DE', state: null }, behavior: 'inclusive', lines: [{ reference: '1', amount: 10_000, tax_code: taxCode }] })
  standIn.misbehave(() => (answer) => taxes(answer, () => ({ tax_amount })))
  await (fits ? expect(service.quote(german)).resolves.not.toBeNull() : expect(service.quote(german)).rejects.toThrow(TaxUnavailable))
})

test('fails if the service fails, closes the connection or answers too late', async () => {
  standIn.misbehave(() => 'fail')
  await expect(service.quote(question())).rejects.toThrow('status 500')
  standIn.misbehave(() => 'lose_answer')
  await expect(service.quote(question())).rejects.toThrow(TaxUnavailable)
  standIn.misbehave(() => 'hang')
  await expect(hasty.quote(question())).rejects.toThrow(outOfTime)
})

test('never takes the second answer to one question as the answer to the next question', async () => {
  standIn.misbehave(() => 'answer_twice')
  let answered = 0
  for (let at = 0; at < 40; at++) {
    const asked = question({ fingerprint: String(at).padStart(64, '0'), lines: [{ reference: '1', amount: 1000 * (at + 1), tax_code: taxCode }] })
    const quote = await service.quote(asked).catch((error: unknown) => {
      expect(error).toBeInstanceOf(TaxUnavailable)
    })
    if (!quote) continue
    answered++
    expect(quote.id).not.toBe('quote_again')
    expect(quote.fingerprint).toBe(asked.fingerprint)
  }
  expect(answered).toBeGreaterThan(0)
})

describe('reports', () => {
  const sale = async (): Promise<TaxedSale> => {
    const { id: quote_id, behavior, lines } = (await service.quote(question()))!
    return { organization_id: 'o', order_id: crypto.randomUUID(), quote_id, currency: 'usd', behavior, lines, address: question().address, tax_id: null }
  }

  test('are recorded once, also if the answer is lost and the report is repeated', async () => {
    const paid = await sale()
    const reversal = { key: 'refund', organization_id: 'o', quote_id: paid.quote_id, order_id: paid.order_id, currency: 'usd', amount: 500, tax_amount: 40 }
    standIn.misbehave(() => 'lose_answer')
    await expect(service.confirm(paid)).rejects.toThrow(TaxUnavailable)
    await expect(service.reverse(reversal)).rejects.toThrow(TaxUnavailable)
    standIn.behave()
    await service.confirm(paid)
    await service.reverse(reversal)
    const { key, ...reversed } = reversal
    expect(standIn.books.confirmed.get(paid.order_id)).toEqual(paid)
    expect([...standIn.books.reversed]).toEqual([[key, reversed]])
  })

  test('fail if the service does not record them', async () => {
    const paid = await sale()
    standIn.misbehave(() => 'fail')
    await expect(service.confirm(paid)).rejects.toThrow('status 500')
    standIn.misbehave(() => 'hang')
    await expect(hasty.confirm(paid)).rejects.toThrow(outOfTime)
    expect(standIn.books.confirmed.has(paid.order_id)).toBe(false)
    // The service receives the late request in full, although the client no longer waits for the answer.
    standIn.release()
    await eventually('the late request is recorded', async () => standIn.books.confirmed.has(paid.order_id))
  })
})
