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
  from: { name: string; address: string }
  reply_to: string[]
  /** Every received header, in lower case. */
  headers: string[]
}

/** Extracts the sign-in code from a mail. */
export const codeIn = (text: string): string => /\b[2-9A-Z]{4}-[2-9A-Z]{4}\b/.exec(text)![0]

/** Returns a well-formed sign-in code that differs from this one. */
export const otherCode = (code: string): string => code.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'))

/** Opens a real SMTP server that stores the mails it receives. Tests can make the server refuse mails. */
export const openMailbox = async () => {
  const letters: Letter[] = []
  const waiting: { to: string; resolve: (letter: Letter) => void }[] = []
  let refusals = 0
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS', 'AUTH'],
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
            from: { name: parsed.from?.name ?? '', address: parsed.from?.address ?? '' },
            reply_to: (parsed.replyTo ?? []).map(({ address }) => address ?? ''),
            headers: parsed.headers.map(({ key }) => key),
          }
          noteSecrets(letter.text)
          const at = waiting.findIndex(({ to }) => to === letter.to)
          if (at >= 0) waiting.splice(at, 1)[0]!.resolve(letter)
          else letters.push(letter)
          done()
        })
      })
    },
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
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  }
}
export type Mailbox = Awaited<ReturnType<typeof openMailbox>>
