import { hash } from 'node:crypto'
import type pg from 'pg'

/** Prepared statements per connection. The database keeps a plan of each, about 50 KB. Further statements are planned for each request. */
const mostPerConnection = 300
/** Statement texts that this process remembers. The oldest is forgotten first. */
const mostTexts = 5000

/** The names of statements by text. A text that was seen once has no name yet, because it may never come again. */
const names = new Map<string, string | undefined>()

const nameOf = (text: string): string | undefined => {
  const known = names.get(text)
  if (known !== undefined) return known
  if (!names.has(text)) {
    if (names.size >= mostTexts) names.delete(names.keys().next().value!)
    names.set(text, undefined)
    return undefined
  }
  const name = hash('sha256', text, 'base64url')
  names.set(text, name)
  return name
}

/** True if a migration has changed a table since the statement was prepared. It must be prepared again. */
export const isStalePlan = (error: unknown): boolean => {
  const { code, message } = error as { code?: string; message?: string }
  return code === '0A000' && message === 'cached plan must not change result type'
}

const preparable = /^\s*(select|with|insert|update|delete|\()/i

type Query = (...args: unknown[]) => Promise<unknown>

/**
 * Makes a connection prepare its statements: from the second time on, the database does not parse a text again. It also
 * keeps the plan, unless a plan with the values promises to be faster. Statements need no names in the code. A text that contains values instead of parameters would be useless
 * here, so lists of values are sent as one array.
 */
export const prepareStatements = (client: pg.ClientBase): void => {
  const prepared = new Set<string>()
  // Counts how often the statements of this connection had to be prepared again.
  let turn = 0
  let inTransaction = false
  const send: Query = (...args) => (Object.getPrototypeOf(client) as { query: Query }).query.apply(client, args)
  const query: Query = (...args) => {
    const [text, values] = args
    if (typeof text !== 'string' || !Array.isArray(values) || args.length > 2) return send(...args)
    if (!preparable.test(text)) {
      if (/^\s*(begin|start)\b/i.test(text)) inTransaction = true
      else if (/^\s*(commit|rollback)\s*$/i.test(text)) inTransaction = false
      return send(text, values)
    }
    const name = nameOf(text)
    if (name === undefined || (!prepared.has(name) && prepared.size >= mostPerConnection)) return send(text, values)
    prepared.add(name)
    const sendNamed = () => send({ name: `${name}${turn}`, text, values })
    return sendNamed().catch((error: unknown) => {
      if (!isStalePlan(error)) throw error
      turn++
      prepared.clear()
      // A transaction has failed with its statement. The caller runs it again.
      if (inTransaction) throw error
      return sendNamed()
    })
  }
  client.query = query as unknown as typeof client.query
}
