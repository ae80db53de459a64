import {
  generateInvoice,
  generatePortalInvoice,
  getCreditNote,
  getInvoice,
  getPortalCreditNote,
  getPortalInvoice,
  getPortalReceipt,
  getReceipt,
  listPortalRefunds,
} from '@bursar/contract'
import { job, read, multiStep, write, type Deps } from '../../handlers.ts'
import { requireOrder } from '../records/orders.ts'
import { askForInvoice, bought, creditNoteOf, invoiceOf, linkTo, renderDocument, ownCreditNoteOf, receiptOf, type Lead } from './documents.ts'
import { numberedRefunds } from './gathering.ts'

// Second step of every operation that returns a document, for sellers and customers: creates the download link.
const proceed = (deps: Deps, _: unknown, lead: Lead) => linkTo(deps, lead)

export const operations = [
  write(generateInvoice, async (tx, { scope, params }) => {
    await askForInvoice(tx, scope, await requireOrder(tx, scope, params.id))
    return {}
  }),
  multiStep(getInvoice, { begin: async (tx, { scope, params }) => invoiceOf(tx, await requireOrder(tx, scope, params.id)), proceed }),
  multiStep(getReceipt, { begin: async (tx, { scope, params }) => receiptOf(tx, scope, await requireOrder(tx, scope, params.id)), proceed }),
  multiStep(getCreditNote, { begin: (tx, { scope, params }) => creditNoteOf(tx, scope, params.id), proceed }),

  write(generatePortalInvoice, async (tx, { actor, scope, params }) => {
    await askForInvoice(tx, scope, await bought(tx, scope, actor, params.id))
    return {}
  }),
  multiStep(getPortalInvoice, { begin: async (tx, { actor, scope, params }) => invoiceOf(tx, await bought(tx, scope, actor, params.id)), proceed }),
  multiStep(getPortalReceipt, { begin: async (tx, { actor, scope, params }) => receiptOf(tx, scope, await bought(tx, scope, actor, params.id)), proceed }),
  read(listPortalRefunds, async (db, { actor, scope, params }) => ({ items: await numberedRefunds(db, await bought(db, scope, actor, params.id)) })),
  multiStep(getPortalCreditNote, {
    begin: async (tx, { actor, scope, params }) => ownCreditNoteOf(tx, scope, await bought(tx, scope, actor, params.id), params.refund_id),
    proceed,
  }),
]

export const jobs = [job('billing.make_document', renderDocument)]
