import { access, constants, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createTransport } from 'nodemailer'
import { newId, timeOf } from '../../kernel/ids.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'

export interface Message {
  readonly to: string
  readonly subject: string
  readonly text: string
  /** Sender name. The sender address is always the deployment's. */
  readonly from_name?: string | undefined
  /** Address for replies. */
  readonly reply_to?: string | undefined
}

/** Sends mail. Throws on failure, and the calling job retries later. */
export interface Mail {
  send(message: Message): Promise<void>
  /** Checks the connection to the mail server without sending mail. Throws if mail cannot be sent now. */
  check(): Promise<void>
  close(): void
}

/** Opens the configured mail server, or otherwise a folder that stores each message as a file. */
export const openMail = (config: Config['mail'], clock: Clock): Mail =>
  config.smtp_url ? smtp(config.smtp_url.reveal(), config.from) : folder(config.directory!, config.from, clock)

const smtp = (url: string, from: string): Mail => {
  // Mails contain codes and links, so connections to other machines must be encrypted.
  const loopback = ['127.0.0.1', '[::1]', 'localhost'].includes(new URL(url).hostname)
  const transport = createTransport({ url, requireTLS: !loopback, connectionTimeout: 5_000, greetingTimeout: 5_000, socketTimeout: 10_000 }, { from })
  return {
    send: async ({ to, subject, text, from_name, reply_to }) => {
      // Passes names and addresses as separate values, never as header text. This prevents header injection by a name.
      await transport.sendMail({
        to: { name: '', address: to },
        subject,
        text,
        ...(from_name === undefined ? {} : { from: { name: line(from_name), address: addressOf(from) } }),
        ...(reply_to === undefined ? {} : { replyTo: { name: '', address: reply_to } }),
      })
    },
    check: async () => {
      await transport.verify()
    },
    close: () => transport.close(),
  }
}

const folder = (directory: string, from: string, clock: Clock): Mail => ({
  send: async ({ to, subject, text, from_name, reply_to }) => {
    const headers = {
      From: from_name === undefined ? from : `"${from_name.replaceAll(/["\\]/g, '\\$&')}" <${addressOf(from)}>`,
      'Reply-To': reply_to,
      To: to,
      Subject: subject,
    }
    const head = Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${line(value)}`]))
    await mkdir(directory, { recursive: true })
    await writeFile(join(directory, `${newId(clock.wall())}.txt`), `${head.join('\n')}\n\n${text}\n`, { mode: 0o600 })
  },
  check: async () => {
    await mkdir(directory, { recursive: true })
    await access(directory, constants.W_OK)
  },
  close: () => {},
})

/** Replaces line breaks and control characters by spaces, because a header is one line. */
const line = (text: string): string => text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')

/** Returns the address of a sender such as `Name <address>`. */
const addressOf = (sender: string): string => /<([^<>]*)>\s*$/.exec(sender)?.[1] ?? sender

export interface Letter extends Message {
  readonly at: Date
}

/** Returns the newest messages of a mail folder, the mailbox of a development machine. */
export const readLetters = async (directory: string, most: number): Promise<Letter[]> => {
  const names = (await readdir(directory).catch(() => [])).filter((name) => name.endsWith('.txt'))
  // File names are ids, which start with a timestamp. Sorting by name therefore sorts by time.
  return Promise.all(
    names
      .toSorted()
      .toReversed()
      .slice(0, most)
      .map(async (name) => {
        const [head = '', ...rest] = (await readFile(join(directory, name), 'utf8')).split('\n\n')
        const header = (field: string) => new RegExp(`^${field}: (.*)$`, 'm').exec(head)?.[1] ?? ''
        return { at: timeOf(name.replace(/\.txt$/, '')), to: header('To'), subject: header('Subject'), text: rest.join('\n\n').trim() }
      }),
  )
}
