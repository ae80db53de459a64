import { languageOf, type Language } from '../../../kernel/languages.ts'
import type { CustomerRow } from './customer-rows.sql.ts'

/** The language in which a customer is addressed: the customer's own, or that of the billing country. */
export const languageOfCustomer = (customer: Pick<CustomerRow, 'locale' | 'billing_address'> | undefined): Language =>
  languageOf(customer?.locale ?? null, customer?.billing_address?.country ?? null)
