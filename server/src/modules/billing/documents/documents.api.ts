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
import { job, read, steps, write, type Means } from '../../handlers.ts'
import { find } from '../orders/orders.ts'
import { askForInvoice, bought, creditNoteOf, invoiceOf, linkTo, make, ownCreditNoteOf, receiptOf, type Lead } from './documents.ts'
import { numberedRefunds } from './gathering.ts'

// Every file is led to in the same way, whoever asks for whichever.
const proceed = (means: Means, _: unknown, lead: Lead) => linkTo(means, lead)

export const operations = [
  write(generateInvoice, async (tx, { reach, params }) => {
    await askForInvoice(tx, reach, await find(tx, reach, params.id))
    return {}
  }),
  steps(getInvoice, { begin: async (tx, { reach, params }) => invoiceOf(tx, await find(tx, reach, params.id)), proceed }),
  steps(getReceipt, { begin: async (tx, { reach, params }) => receiptOf(tx, reach, await find(tx, reach, params.id)), proceed }),
  steps(getCreditNote, { begin: (tx, { reach, params }) => creditNoteOf(tx, reach, params.id), proceed }),

  write(generatePortalInvoice, async (tx, { actor, reach, params }) => {
    await askForInvoice(tx, reach, await bought(tx, reach, actor, params.id))
    return {}
  }),
  steps(getPortalInvoice, { begin: async (tx, { actor, reach, params }) => invoiceOf(tx, await bought(tx, reach, actor, params.id)), proceed }),
  steps(getPortalReceipt, { begin: async (tx, { actor, reach, params }) => receiptOf(tx, reach, await bought(tx, reach, actor, params.id)), proceed }),
  read(listPortalRefunds, async (db, { actor, reach, params }) => ({ items: await numberedRefunds(db, await bought(db, reach, actor, params.id)) })),
  steps(getPortalCreditNote, {
    begin: async (tx, { actor, reach, params }) => ownCreditNoteOf(tx, reach, await bought(tx, reach, actor, params.id), params.refund_id),
    proceed,
  }),
]

export const jobs = [job('billing.make_document', make)]
