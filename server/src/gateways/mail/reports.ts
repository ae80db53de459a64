import PostalMime, { type Address, type Attachment, type Email } from 'postal-mime'
import { isUnreachableReport } from './statuses.ts'

/** A report about a mail: a delivery status notification (RFC 3464), or an abuse report (RFC 5965). */
export interface MailReport {
  /** The address cannot be reached, this mail was not delivered, or the recipient complained about it. */
  readonly kind: 'permanent' | 'transient' | 'complaint'
  readonly diagnostic: string | null
  /** Addresses and message ids that may contain the token of the mail. */
  readonly mentions: readonly string[]
}

/** Bytes of a message that are read. The status precedes the copy of the mail, so the rest of a longer message is not needed. */
export const readBytes = 1024 ** 2
const mostBlocks = 20
const limits = { maxNestingDepth: 10, maxHeadersSize: 256 * 1024, maxRfc822NestingDepth: 0, forceRfc822Attachments: true }

const complaints: ReadonlySet<string> = new Set(['abuse', 'fraud', 'opt-out'])

/** Reads a raw message. Undefined if it reports no failure and no complaint. Throws if the message exceeds the limits of the parser. */
export const readReport = async (raw: Uint8Array): Promise<MailReport | undefined> => {
  const message = await PostalMime.parse(raw.subarray(0, readBytes), limits)
  const result = (await readStatus(message)) ?? (await readComplaint(message))
  return result && { ...result, mentions: [...recipientsOf(message), ...(await originalOf(message))] }
}

type Result = Pick<MailReport, 'kind' | 'diagnostic'>

const readStatus = async (message: Email): Promise<Result | undefined> => {
  const part = partOf(message, ['message/delivery-status', 'message/global-delivery-status'])
  // Each of our mails has one recipient. The first block is about the message, and the others about recipients.
  for (const block of part === undefined ? [] : await blocksOf(part)) {
    const action = block('action')?.toLowerCase()
    if (action !== 'failed' && action !== 'delayed') continue
    const status = /\d\.\d{1,3}\.\d{1,3}/.exec(block('status') ?? '')?.[0] ?? ''
    const answer = block('diagnostic-code')?.replace(/^smtp;\s*/i, '') ?? ''
    return { kind: action === 'failed' && isUnreachableReport(status, answer) ? 'permanent' : 'transient', diagnostic: `${status} ${answer}`.trim() || null }
  }
  return undefined
}

const readComplaint = async (message: Email): Promise<Result | undefined> => {
  const part = partOf(message, ['message/feedback-report'])
  const [block] = part === undefined ? [] : await blocksOf(part)
  const type = block?.('feedback-type')?.toLowerCase()
  return type !== undefined && complaints.has(type) ? { kind: 'complaint', diagnostic: type } : undefined
}

/** Returns the addresses to which the report was sent. A bounce is sent to the return path of the mail. */
const recipientsOf = ({ to, deliveredTo, headers }: Email): string[] => [
  ...(to ?? []).flatMap((address: Address) => address.address ?? []),
  ...(deliveredTo === undefined ? [] : [deliveredTo]),
  ...headers.flatMap(({ key, value }) => (key === 'x-original-to' ? [value] : [])),
]

/** Returns return path and message id of the mail of which the report contains a copy. */
const originalOf = async (message: Email): Promise<string[]> => {
  const part = partOf(message, ['message/rfc822', 'text/rfc822-headers', 'message/rfc822-headers', 'message/global', 'message/global-headers'])
  if (part === undefined) return []
  const { returnPath, messageId } = await PostalMime.parse(bytesOf(part), limits)
  return [returnPath, messageId].filter((text) => text !== undefined)
}

const partOf = ({ attachments }: Email, types: readonly string[]): Attachment | undefined => attachments.find(({ mimeType }) => types.includes(mimeType))

const bytesOf = ({ content }: Attachment): Uint8Array => (typeof content === 'string' ? Buffer.from(content) : new Uint8Array(content))

/** Parses the groups of fields in a report. Returns a function for each that finds a field by its name. */
const blocksOf = async (part: Attachment) => {
  const blocks = Buffer.from(bytesOf(part)).toString('utf8').replaceAll('\r\n', '\n').split('\n\n', mostBlocks)
  const parsed = await Promise.all(blocks.map((block) => PostalMime.parse(`${block.trim()}\n\n`, limits)))
  return parsed.map(
    ({ headers }) =>
      (name: string) =>
        headers.find(({ key }) => key === name)?.value,
  )
}
