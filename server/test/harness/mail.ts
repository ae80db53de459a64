import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import PostalMime from 'postal-mime'
import { SMTPServer } from 'smtp-server'
import { longestWait } from './pace.ts'
import { noteSecrets } from './secrets.ts'

export interface Letter {
  to: string
  subject: string
  text: string
  html: string
  from: { name: string; address: string }
  reply_to: string[]
  /** The sender in the envelope, to which bounces are sent. */
  return_path: string
  message_id: string
  /** Every received header, in lower case. */
  headers: string[]
}

/** Extracts the sign-in code from a mail. */
const code = /\b[2-9A-Z]{4}-[2-9A-Z]{4}\b/
export const codeIn = (text: string): string => code.exec(text)![0]
/** True for a mail with a code. */
export const hasCode = ({ text }: Pick<Letter, 'text'>): boolean => code.test(text)

/** Returns a well-formed sign-in code that differs from this one. */
export const otherCode = (code: string): string => code.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'))

/** Opens a real SMTP server that stores the mails it receives. Tests can make the server refuse mails. */
export const openMailbox = async () => {
  const letters: Letter[] = []
  const waiting: { to: string; resolve: (letter: Letter) => void }[] = []
  let refusals = 0
  const rejected = new Map<string, { code: number; text: string }>()
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS', 'AUTH'],
    // Our texts contain the enhanced codes.
    hideENHANCEDSTATUSCODES: true,
    onRcptTo: ({ address }, _, done) => {
      const answer = rejected.get(address)
      done(answer && Object.assign(new Error(answer.text), { responseCode: answer.code }))
    },
    onData: (stream, session, done) => {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        if (refusals > 0) {
          refusals--
          return done(new Error('try again later'))
        }
        void PostalMime.parse(Buffer.concat(chunks)).then((parsed) => {
          const letter: Letter = {
            to: session.envelope.rcptTo.map(({ address }) => address).join(', '),
            subject: parsed.subject ?? '',
            text: parsed.text ?? '',
            html: parsed.html ?? '',
            from: { name: parsed.from?.name ?? '', address: parsed.from?.address ?? '' },
            reply_to: (parsed.replyTo ?? []).map(({ address }) => address ?? ''),
            return_path: session.envelope.mailFrom === false ? '' : session.envelope.mailFrom.address,
            message_id: parsed.messageId ?? '',
            headers: parsed.headers.map(({ key }) => key),
          }
          noteSecrets(`${letter.text} ${letter.html}`)
          const at = waiting.findIndex(({ to }) => to === letter.to)
          if (at >= 0) waiting.splice(at, 1)[0]!.resolve(letter)
          else letters.push(letter)
          done()
        })
      })
    },
  })
  // A killed process breaks its connections, and the server reports that as an error of its own.
  server.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') throw error
  })
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  return {
    url: `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`,
    letters,
    /** Resolves with the oldest mail to an address that no earlier call has returned. Waits for the next mail if there is none yet. */
    next: (to: string): Promise<Letter> => {
      const at = letters.findIndex((letter) => letter.to === to)
      if (at >= 0) return Promise.resolve(letters.splice(at, 1)[0]!)
      return new Promise((resolve, reject) => {
        setTimeout(() => reject(new Error(`no letter came to ${to}`)), longestWait).unref()
        waiting.push({ to, resolve })
      })
    },
    /** Makes the server refuse the next `count` mails. */
    refuse: (count: number) => void (refusals = count),
    /** Makes the server answer a recipient with an error, such as 550 and `5.1.1 No such user`. Without an answer, it accepts the recipient again. */
    reject: (address: string, code?: number, text = '') => void (code === undefined ? rejected.delete(address) : rejected.set(address, { code, text })),
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  }
}
export type Mailbox = Awaited<ReturnType<typeof openMailbox>>
