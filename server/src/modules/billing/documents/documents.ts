import { MissingInvoiceBillingDetails, OrderNotEligibleForInvoice, orderUpdated, ResourceNotFound } from '@bursar/contract'
import { within, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { longestDownload } from '../../../gateways/storage/storage.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { renderSheet } from '../../../platform/paper/render.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { pending, refuse, type Means, type Pending, type Refusal } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { findLivingOrganization, permit, type OrganizationRow } from '../../organizations/index.ts'
import { changeOrder, findOrder, loadOrders, lockOrder, type LoadedOrder, type OrderRow } from '../orders/orders.sql.ts'
import { findOwn, isPaid, nextInvoiceNumber, presentOrder, receiptNumberOf, subjectOf } from '../orders/orders.ts'
import { findRefund, paidBy, readRefund, type RefundRow } from '../refunds/refunds.sql.ts'
import { changeDocument, countCreditNotes, findDocument, insertDocument, readDocument, type DocumentRow, type Wanted } from './documents.sql.ts'
import type { Given } from './engine/facts.ts'
import { sheetOf } from './engine/sheets.ts'
import { checksumOf, gather, givenBack, renewed } from './gathering.ts'

const invoice: Wanted = { kind: 'invoice', refund_id: null }
const receipt: Wanted = { kind: 'receipt', refund_id: null }

/** Asks for the invoice of an order, at either door: it will be there, once, however often it is asked for. */
export const askForInvoice = async (tx: Tx, reach: Reach, found: LoadedOrder): Promise<void> => {
  const { order } = found
  if (!isPaid(order)) throw new OrderNotEligibleForInvoice()
  if (order.billing_name === null || order.billing_address === null) throw new MissingInvoiceBillingDetails()
  const { document, loaded } = await ensure(tx, reach, order, invoice)
  if (!(await isCurrent(tx, document, loaded)))
    await enqueue(tx, 'billing.make_document', { organization_id: document.organization_id, document_id: document.id })
}

/** What leads to a file: null while it is being made. */
export interface Lead extends Readonly<Record<string, string | null>> {
  readonly object_key: string | null
  readonly number: string
}

/** The invoice as it was made of what is so now; one that is behind is made anew, and absent until then. */
export const invoiceOf = async (tx: Tx, loaded: LoadedOrder): Promise<Lead | Refusal> => {
  const document = await findDocument(tx, loaded.order, invoice)
  if (!document?.object_key) throw new ResourceNotFound()
  if (await isCurrent(tx, document, loaded)) return leadTo(document)
  await enqueue(tx, 'billing.make_document', { organization_id: document.organization_id, document_id: document.id })
  return refuse(new ResourceNotFound())
}

/** The receipt of an order that was paid with a payment, with what was given back so far; made when it is asked for. */
export const receiptOf = async (tx: Tx, reach: Reach, loaded: LoadedOrder): Promise<Lead> => {
  if (!isPaid(loaded.order) || !(await paidBy(tx, loaded.order))) throw new ResourceNotFound()
  return fetchOrMake(tx, reach, loaded, receipt)
}

/** The credit note of a refund that succeeded; made when it is asked for. */
export const creditNoteOf = async (tx: Tx, reach: Reach, refund_id: string): Promise<Lead> => {
  const refund = await findRefund(tx, reach, refund_id)
  if (!refund) throw new ResourceNotFound()
  permit(reach, refund.organization_id, 'sales:read')
  const loaded = await findOrder(tx, reach, refund.order_id)
  if (!loaded) throw new ResourceNotFound()
  return noteOf(tx, reach, loaded, refund)
}

/** The same for whoever paid: of an order of theirs. */
export const ownCreditNoteOf = async (tx: Tx, reach: Reach, loaded: LoadedOrder, refund_id: string): Promise<Lead> => {
  const refund = await readRefund(tx, loaded.order.organization_id, refund_id)
  if (refund?.order_id !== loaded.order.id) throw new ResourceNotFound()
  return noteOf(tx, reach, loaded, refund)
}

const noteOf = (tx: Tx, reach: Reach, loaded: LoadedOrder, { id, status }: RefundRow): Promise<Lead> => {
  if (status !== 'succeeded') throw new ResourceNotFound()
  return fetchOrMake(tx, reach, loaded, { kind: 'credit_note', refund_id: id })
}

const fetchOrMake = async (tx: Tx, reach: Reach, loaded: LoadedOrder, wanted: Wanted): Promise<Lead> => {
  const known = await findDocument(tx, loaded.order, wanted)
  if (known?.object_key && (await isCurrent(tx, known, loaded))) return leadTo(known)
  const { document } = await ensure(tx, reach, loaded.order, wanted)
  await enqueue(tx, 'billing.make_document', { organization_id: document.organization_id, document_id: document.id })
  return { ...leadTo(document), object_key: null }
}

/** A refund that succeeded has its credit note, and the number of it, from then on. */
export const noteRefund = async (tx: Tx, reach: Reach, order: OrderRow, refund: RefundRow): Promise<void> => {
  if (order.invoice_number !== null) await ensure(tx, reach, order, { kind: 'credit_note', refund_id: refund.id })
}

/**
 * The document, written down if it was not yet: under the lock of its order, so that there is one, and numbers follow each
 * other. What was paid before there were numbers gets them here.
 */
const ensure = async (wall: Tx, reach: Reach, { organization_id, id }: OrderRow, wanted: Wanted): Promise<{ document: DocumentRow; loaded: LoadedOrder }> => {
  const held = (await lockOrder(wall, reach, id))!
  const tx = await inTimeOf(wall, held)
  const seller = (await findLivingOrganization(tx, { id: organization_id }))!
  const order = await numbered(tx, seller, held)
  const loaded = (await loadOrders(tx, reach, [order]))[0]!
  const known = await findDocument(tx, order, wanted)
  if (known) return { document: known, loaded }
  const facts = await gather(tx, seller, loaded, wanted, await refundsFor(tx, order, loaded, wanted))
  const row = { organization_id, id: newId(tx.clock.wall()), created_at: tx.clock.business(), modified_at: null, ...wanted, order_id: id }
  return { document: await insertDocument(tx, order, { ...row, facts, checksum: null, object_key: null }), loaded }
}

const numbered = async (tx: Tx, seller: OrganizationRow, order: Locked<OrderRow>): Promise<Locked<OrderRow>> => {
  const invoice_number = order.invoice_number ?? (await nextInvoiceNumber(tx, seller, { id: order.customer_id }))
  const receipt_number = order.receipt_number ?? ((await paidBy(tx, order)) ? receiptNumberOf(invoice_number) : null)
  if (invoice_number === order.invoice_number && receipt_number === order.receipt_number) return order
  return changeOrder(tx, order, { invoice_number, receipt_number })
}

const refundsFor = async (tx: Tx, order: Locked<OrderRow>, loaded: LoadedOrder, { kind, refund_id }: Wanted): Promise<Given[]> => {
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

/** A link to the file that is soon worth nothing to anybody else. */
export const linkTo = async ({ gateways }: Means, { object_key, number }: Lead): Promise<{ url: string; number: string } | Pending> => {
  if (object_key === null) return pending
  const { url } = await gateways.storage.private.presignDownload({
    key: object_key,
    name: `${number}.pdf`,
    content_type: 'application/pdf',
    expires_in: longestDownload,
  })
  return { url, number }
}

/**
 * Makes the file of what is so now, unless it is there. Files are kept under the checksum of what they tell: whoever makes
 * the same one twice makes the same bytes, and an older one is never written over.
 */
export const make = async (means: Means, { organization_id, document_id }: { organization_id: string; document_id: string }): Promise<void> => {
  const { db } = means
  const seller = await findLivingOrganization(db, { id: organization_id })
  const document = await readDocument(db, organization_id, document_id)
  if (!seller || !document) return
  const reach = within(organization_id, 'machine', seller.member_phase)
  const facts = await renewed(db, document, (await findOrder(db, reach, document.order_id))!)
  const checksum = checksumOf(facts)
  if (document.checksum === checksum && document.kind !== 'invoice') return
  const object_key = `documents/${organization_id}/${document_id}/${checksum}.pdf`
  if (document.checksum !== checksum)
    await means.gateways.storage.private.put({ key: object_key, content_type: 'application/pdf', bytes: await renderSheet(sheetOf(facts)) })
  await means.transact(async (wall) => {
    const held = (await lockOrder(wall, reach, document.order_id))!
    const tx = await inTimeOf(wall, held)
    const [now] = await loadOrders(tx, reach, [held])
    // Somebody has changed what it tells meanwhile: it is made once more.
    if (checksumOf(await renewed(tx, document, now!)) !== checksum) return enqueue(tx, 'billing.make_document', { organization_id, document_id })
    await changeDocument(tx, held, document, { facts, checksum, object_key })
    if (document.kind !== 'invoice' || (held.is_invoice_generated && document.checksum === checksum)) return
    const order = await changeOrder(tx, held, { is_invoice_generated: true })
    await emit(tx, orderUpdated, subjectOf(order), presentOrder({ ...now!, order }))
  })
}

/** The order that a customer means, if it is theirs and they look after what is paid. */
export const bought = (db: Db, reach: Reach, actor: PortalActor, id: string): Promise<LoadedOrder> => {
  allow(actor.role, 'billing:read')
  return findOwn(db, reach, actor, id)
}
