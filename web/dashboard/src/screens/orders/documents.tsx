import { generateInvoice, getCreditNote, getInvoice, getOrder, getReceipt, listRefunds } from '@bursar/contract'
import type { Reply } from '@bursar/contract/client'
import { useState } from 'react'
import { api, useRead } from '../../app/api.ts'
import { t } from '../../app/texts.ts'
import { Panel } from '../../kit/layout.tsx'

interface Order {
  readonly id: string
  readonly status: string
  readonly invoice_number: string | null
  readonly receipt_number: string | null
  readonly is_invoice_generated: boolean
  readonly refunded_amount: number
}
type Answer = Reply<{ readonly url?: string } | { readonly error?: string }>
/** A document of an order. Its first request makes the file, and later ones return its address. */
interface Paper {
  readonly name: string
  readonly number: string | null
  readonly fetch: () => Promise<Answer>
  /** Requests a file that does not exist yet, and says whether it exists. Without them, the request for the file does both. */
  readonly make?: () => Promise<Answer>
  readonly isMade?: () => Promise<boolean>
}

/** How often a file that is being made is asked for, and the milliseconds between. */
const most = 30
const between = 700
const urlOf = ({ body }: Answer): string | undefined => ('url' in body ? body.url : undefined)

const pause = () => new Promise((resolve) => setTimeout(resolve, between))

/** Fetches the address of a file, and waits while it is being made. Returns the reason if there is none. */
const addressOf = async ({ fetch, make, isMade }: Paper): Promise<{ url: string } | { reason: string }> => {
  if (make && isMade && !(await isMade())) {
    const made = await make()
    if (made.status >= 300) return { reason: 'error' in made.body ? (made.body.error ?? '') : '' }
    for (let asked = 0; asked < most && !(await isMade()); asked++) await pause()
  }
  let answer = await fetch()
  for (let asked = 1; asked < most && answer.status === 202; asked++) {
    await pause()
    answer = await fetch()
  }
  const url = answer.status === 200 ? urlOf(answer) : undefined
  return url === undefined ? { reason: '' } : { url }
}

/** The PDFs of an order: its invoice, its receipt, and a credit note for each refund. */
const Documents = ({ order }: { order: Order }) => {
  const params = { params: { id: order.id } }
  const refunds = useRead(listRefunds, { query: { order_id: [order.id], limit: 100 } }, { enabled: order.refunded_amount > 0 })
  const d = t.sale.documents
  const papers: readonly Paper[] = [
    ...(order.invoice_number === null
      ? []
      : [
          {
            name: t.orders.invoice,
            number: order.invoice_number,
            fetch: () => api.send(getInvoice, params) as Promise<Answer>,
            make: () => api.send(generateInvoice, params) as Promise<Answer>,
            isMade: async () => (await api.call(getOrder, params)).is_invoice_generated,
          },
        ]),
    ...(order.receipt_number === null
      ? []
      : [{ name: t.orders.receipt, number: order.receipt_number, fetch: () => api.send(getReceipt, params) as Promise<Answer> }]),
    ...(refunds.data?.items ?? [])
      .filter(({ status }) => status === 'succeeded')
      .map(({ id }) => ({ name: d.creditNote, number: null, fetch: () => api.send(getCreditNote, { params: { id } }) })),
  ]
  if (papers.length === 0) return null
  return (
    <Panel title={t.orders.documents}>
      <ul className="rows">
        {papers.map((paper, at) => (
          // oxlint-disable-next-line react/no-array-index-key -- credit notes have no other key, and the list only grows
          <Document key={at} paper={paper} />
        ))}
      </ul>
    </Panel>
  )
}
export default Documents

const Document = ({ paper }: { paper: Paper }) => {
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const d = t.sale.documents
  const save = async () => {
    setBusy(true)
    setProblem(null)
    const found = await addressOf(paper).catch(() => ({ reason: '' }))
    setBusy(false)
    if ('reason' in found) return setProblem(found.reason === 'MissingInvoiceBillingDetails' ? d.incomplete : d.failed)
    const link = document.createElement('a')
    link.href = found.url
    link.click()
  }
  return (
    <li>
      <span>
        {paper.name} {paper.number !== null && <span className="soft">{paper.number}</span>}
        {problem !== null && (
          <p className="error" role="alert">
            {problem}
          </p>
        )}
      </span>
      <button
        type="button"
        aria-busy={busy}
        disabled={busy}
        aria-label={busy ? undefined : d.saveOf(`${paper.name} ${paper.number ?? ''}`.trim())}
        onClick={() => void save()}
      >
        {busy ? d.making : d.save}
      </button>
    </li>
  )
}
