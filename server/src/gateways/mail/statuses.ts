/** The enhanced status code of RFC 3463 in an SMTP answer such as `550 5.1.1 No such user`. */
const enhanced = /^\d{3}[ -]([245]\.\d{1,3}\.\d{1,3})(?!\S)/

/**
 * True if a status alone says that the mailbox does not exist or is disabled. Other permanent failures are about this mail or about the
 * sender, for example 5.7.1 for a policy. An address must not be suppressed for them: if the deployment's own mail server refused
 * every mail, all customers would be suppressed.
 */
export const isUnreachableStatus = (status: string): boolean => /^5\.1\.(1|2|3|6|10)$|^5\.2\.1$/.test(status)

/** Servers send this status for an unknown mailbox, and also if they refuse the sender. */
const ambiguous = '5.1.0'

/** True if the text of an answer says that the mailbox does not exist, and names no other reason. */
const blamesMailbox = (text: string): boolean =>
  /user|mailbox|recipient|address|account/i.test(text) &&
  !/relay|block|spam|policy|denied|auth|sender|reputation/i.test(text) &&
  !(/reject/i.test(text) && /\b(?:ip|host)\b/i.test(text))

/**
 * True if the answer to `RCPT TO` says that the mailbox does not exist or is disabled. Old servers send no enhanced code, or an
 * ambiguous one. Then the text decides, because 550 is also the answer of a server that does not relay for us.
 */
export const isUnreachable = (code: number, response: string): boolean => {
  if (code < 500) return false
  const status = enhanced.exec(response)?.[1]
  if (status !== undefined && status !== ambiguous) return isUnreachableStatus(status)
  return [550, 551, 553].includes(code) && blamesMailbox(response)
}

/** True if a report with this status and this answer of the mail server says that the mailbox does not exist or is disabled. */
export const isUnreachableReport = (status: string, answer: string): boolean =>
  isUnreachableStatus(status) || ([ambiguous, '5.0.0'].includes(status) && isUnreachable(Number(answer.slice(0, 3)), answer))
