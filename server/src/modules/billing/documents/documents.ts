import { MissingInvoiceBillingDetails, OrderNotEligibleForInvoice, orderUpdated, ResourceNotFound } from '@bursar/contract'
import { within, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Sheet } from '../../../kernel/layout.ts'
import { longestDownload } from '../../../gateways/storage/storage.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { pending, refuse, type Deps, type Pending, type Refusal } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { findLivingOrganization, permit, readKeptLogo, type OrganizationRow } from '../../organizations/index.ts'
import { changeOrder, findOrder, loadOrders, lockOrder, type LoadedOrder, type OrderRow } from '../records/orders.sql.ts'
import { findOwn, isPaid, nextInvoiceNumber, presentOrder, receiptNumberOf, subjectOf } from '../records/orders.ts'
import { findRefund, paidBy, readRefund, type RefundRow } from '../records/refunds.sql.ts'
import { changeDocument, countCreditNotes, findDocument, insertDocument, readDocument, type DocumentRow, type Wanted } from './documents.sql.ts'
import type { RefundFacts } from './calc/facts.ts'
import { sheetOf } from './calc/layout.ts'
import { checksumOf, gather, givenBack, renewed } from './gathering.ts'

const invoice: Wanted = { kind: 'invoice', refund_id: null }
const receipt: Wanted = { kind: 'receipt', refund_id: null }

/** Requests the invoice of an order, for sellers and customers. Idempotent: one document per order. */
export const askForInvoice = async (tx: Tx, scope: TenantScope, found: LoadedOrder): Promise<void> => {
  const { order } = found
  if (!isPaid(order)) throw new OrderNotEligibleForInvoice()
  if (order.billing_name === null || order.billing_address === null) throw new MissingInvoiceBillingDetails()
  const { document, loaded } = await ensure(tx, scope, order, invoice)
  if (!(await isCurrent(tx, document, loaded)))
    await enqueue(tx, 'billing.make_document', { organization_id: document.organization_id, document_id: document.id })
}

/** Reference to the file of a document. `object_key` is null until the file is rendered. */
export interface Lead extends Readonly<Record<string, string | null>> {
  readonly object_key: string | null
  readonly number: string
}

/**
 * Returns the invoice if its file is up to date. Otherwise enqueues a new rendering and responds 404 until the file is
 * rendered.
 */
export const invoiceOf = async (tx: Tx, loaded: LoadedOrder): Promise<Lead | Refusal> => {
  const document = await findDocument(tx, loaded.order, invoice)
  if (!document?.object_key) throw new ResourceNotFound()
  if (await isCurrent(tx, document, loaded)) return leadTo(document)
  await enqueue(tx, 'billing.make_document', { organization_id: document.organization_id, document_id: document.id })
  return refuse(new ResourceNotFound())
}

/**
 * Returns the receipt of an order that was paid by a payment, including its refunds so far. Enqueues the rendering if
 * necessary.
 */
export const receiptOf = async (tx: Tx, scope: TenantScope, loaded: LoadedOrder): Promise<Lead> => {
  if (!isPaid(loaded.order) || !(await paidBy(tx, loaded.order))) throw new ResourceNotFound()
  return fetchOrMake(tx, scope, loaded, receipt)
}

/** Returns the credit note of a succeeded refund. Enqueues the rendering if necessary. */
export const creditNoteOf = async (tx: Tx, scope: TenantScope, refund_id: string): Promise<Lead> => {
  const refund = await findRefund(tx, scope, refund_id)
  if (!refund) throw new ResourceNotFound()
  permit(scope, refund.organization_id, 'sales:read')
  const loaded = await findOrder(tx, scope, refund.order_id)
  if (!loaded) throw new ResourceNotFound()
  return noteOf(tx, scope, loaded, refund)
}

/** Returns the credit note of a refund of the customer's own order. */
export const ownCreditNoteOf = async (tx: Tx, scope: TenantScope, loaded: LoadedOrder, refund_id: string): Promise<Lead> => {
  const refund = await readRefund(tx, loaded.order.organization_id, refund_id)
  if (refund?.order_id !== loaded.order.id) throw new ResourceNotFound()
  return noteOf(tx, scope, loaded, refund)
}

const noteOf = (tx: Tx, scope: TenantScope, loaded: LoadedOrder, { id, status }: RefundRow): Promise<Lead> => {
  if (status !== 'succeeded') throw new ResourceNotFound()
  return fetchOrMake(tx, scope, loaded, { kind: 'credit_note', refund_id: id })
}

const fetchOrMake = async (tx: Tx, scope: TenantScope, loaded: LoadedOrder, wanted: Wanted): Promise<Lead> => {
  const known = await findDocument(tx, loaded.order, wanted)
  if (known?.object_key && (await isCurrent(tx, known, loaded))) return leadTo(known)
  const { document } = await ensure(tx, scope, loaded.order, wanted)
  await enqueue(tx, 'billing.make_document', { organization_id: document.organization_id, document_id: document.id })
  return { ...leadTo(document), object_key: null }
}

/**
 * Creates the credit note of a succeeded refund and assigns its number. Does nothing if the order has no invoice
 * number.
 */
export const noteRefund = async (tx: Tx, scope: TenantScope, order: OrderRow, refund: RefundRow): Promise<void> => {
  if (order.invoice_number !== null) await ensure(tx, scope, order, { kind: 'credit_note', refund_id: refund.id })
}

/**
 * Returns the document and creates it if necessary. Locks the order, so that each document exists once and credit note
 * numbers are consecutive. Also assigns the invoice and receipt number of an order that was paid before numbers
 * existed.
 */
const ensure = async (
  wall: Tx,
  scope: TenantScope,
  { organization_id, id }: OrderRow,
  wanted: Wanted,
): Promise<{ document: DocumentRow; loaded: LoadedOrder }> => {
  const held = (await lockOrder(wall, scope, id))!
  const tx = await inTimeOf(wall, held)
  const seller = (await findLivingOrganization(tx, { id: organization_id }))!
  const order = await numbered(tx, seller, held)
  const loaded = (await loadOrders(tx, scope, [order]))[0]!
  const known = await findDocument(tx, order, wanted)
  if (known) return { document: known, loaded }
  const facts = await gather(tx, seller, loaded, wanted, await refundsFor(tx, order, loaded, wanted))
  const row = { organization_id, id: newId(tx.clock.wall()), created_at: tx.clock.business(), modified_at: null, ...wanted, order_id: id }
  return { document: await insertDocument(tx, order, { ...row, facts, checksum: null, object_key: null }), loaded }
}

const numbered = async (tx: BusinessTx, seller: OrganizationRow, order: Locked<OrderRow>): Promise<Locked<OrderRow>> => {
  const invoice_number = order.invoice_number ?? (await nextInvoiceNumber(tx, seller, { id: order.customer_id }))
  const receipt_number = order.receipt_number ?? ((await paidBy(tx, order)) ? receiptNumberOf(invoice_number) : null)
  if (invoice_number === order.invoice_number && receipt_number === order.receipt_number) return order
  return changeOrder(tx, order, { invoice_number, receipt_number })
}

const refundsFor = async (tx: Tx, order: Locked<OrderRow>, loaded: LoadedOrder, { kind, refund_id }: Wanted): Promise<RefundFacts[]> => {
  if (kind === 'invoice') return []
  if (kind === 'receipt') return givenBack(tx, loaded)
  const { created_at, amount, tax_amount, reason } = (await readRefund(tx, order.organization_id, refund_id!))!
  const number = `${order.invoice_number}-C${(await countCreditNotes(tx, order)) + 1}`
  return [{ number, created_at: created_at.toISOString(), amount, tax_amount, reason }]
}

const isCurrent = async (db: Db, document: DocumentRow, loaded: LoadedOrder): Promise<boolean> =>
  document.checksum !== null && document.checksum === checksumOf(await renewed(db, document, loaded))

const leadTo = ({ kind, facts, object_key }: DocumentRow): Lead => ({
  object_key,
  number: { invoice: facts.order.invoice_number, receipt: facts.order.receipt_number, credit_note: facts.refunds[0]?.number }[kind] ?? '',
})

/** Returns a short-lived download link. */
export const linkTo = async ({ gateways }: Deps, { object_key, number }: Lead): Promise<{ url: string; number: string } | Pending> => {
  if (object_key === null) return pending
  const { url } = await gateways.storage.private.presignDownload({
    key: object_key,
    name: `${number}.pdf`,
    content_type: 'application/pdf',
    expires_in: longestDownload,
  })
  return { url, number }
}

/** Renders a PDF. Loads the PDF library on first use, because only workers need it. */
const render = async (sheet: Sheet): Promise<Buffer> => (await import('../../../platform/pdf/render.ts')).renderSheet(sheet)

/**
 * Renders the file of a document from its current facts, unless that file exists. The key of the file contains the
 * checksum of the facts. A second run therefore writes the same bytes, and never overwrites the file of older facts.
 */
export const renderDocument = async (deps: Deps, { organization_id, document_id }: { organization_id: string; document_id: string }): Promise<void> => {
  const { db } = deps
  const seller = await findLivingOrganization(db, { id: organization_id })
  const document = await readDocument(db, organization_id, document_id)
  if (!seller || !document) return
  const scope = within(organization_id, 'machine', seller.member_phase)
  const facts = await renewed(db, document, (await findOrder(db, scope, document.order_id))!)
  const checksum = checksumOf(facts)
  if (document.checksum === checksum && document.kind !== 'invoice') return
  const object_key = `documents/${organization_id}/${document_id}/${checksum}.pdf`
  if (document.checksum !== checksum) {
    const logo = facts.seller.logo ? await readKeptLogo(db, organization_id, facts.seller.logo) : null
    await deps.gateways.storage.private.put({ key: object_key, content_type: 'application/pdf', bytes: await render(sheetOf(facts, logo)) })
  }
  await deps.transact(async (wall) => {
    const held = (await lockOrder(wall, scope, document.order_id))!
    const tx = await inTimeOf(wall, held)
    const [now] = await loadOrders(tx, scope, [held])
    // The facts changed while the file was rendered, so it is rendered again.
    if (checksumOf(await renewed(tx, document, now!)) !== checksum) return enqueue(tx, 'billing.make_document', { organization_id, document_id })
    await changeDocument(tx, held, document, { facts, checksum, object_key })
    if (document.kind !== 'invoice' || (held.is_invoice_generated && document.checksum === checksum)) return
    const order = await changeOrder(tx, held, { is_invoice_generated: true })
    await emit(tx, orderUpdated, subjectOf(order), presentOrder({ ...now!, order }))
  })
}

/** Returns an order of the portal's customer. Throws if the role of the caller may not read billing data. */
export const bought = (db: Db, scope: TenantScope, actor: PortalActor, id: string): Promise<LoadedOrder> => {
  allow(actor.role, 'billing:read')
  return findOwn(db, scope, actor, id)
}
