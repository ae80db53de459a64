import { createProduct } from '@bursar/contract'
import { connect } from '@bursar/contract/client'

/** An application that uses the typed client. `run.ts` checks its types against the packed package. */
const api = connect(
  async ({ method, url, headers, body }) => {
    const answer = await fetch(`http://127.0.0.1:4100${url}`, { method, headers, ...(body === undefined ? {} : { body }) })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  },
  { authorization: 'Bearer token' },
)

/** Creates a product, and returns its id. */
export const offer = async (name: string): Promise<string> => {
  const { id, prices } = await api.call(createProduct, { body: { name, prices: [{ amount_type: 'fixed', price_amount: 500, price_currency: 'usd' }] } })
  if (prices.length === 0) throw new Error('the product has no price')
  return id
}
