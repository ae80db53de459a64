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
  /** In whose name it is sent; the address stays the deployment's. */
  readonly from_name?: string | undefined
  /** Where an answer goes. */
  readonly reply_to?: string | undefined
}

/** Sends mail, or throws: the job that called tries again later. */
export interface Mail {
  send(message: Message): Promise<void>
  /** Throws where mail could not be sent now; sends none. */
  check(): Promise<void>
  close(): void
}

/** A mail server when one is configured, otherwise a folder into which every message is laid. */
export const openMail = (config: Config['mail'], clock: Clock): Mail =>
  config.smtp_url ? smtp(config.smtp_url.reveal(), config.from) : folder(config.directory!, config.from, clock)

const smtp = (url: string, from: string): Mail => {
  // Codes and links travel by mail: off this machine, only over an encrypted connection.
  const loopback = ['127.0.0.1', '[::1]', 'localhost'].includes(new URL(url).hostname)
  const transport = createTransport({ url, requireTLS: !loopback, connectionTimeout: 5_000, greetingTimeout: 5_000, socketTimeout: 10_000 }, { from })
  return {
    send: async ({ to, subject, text, from_name, reply_to }) => {
      // Names and addresses are given apart, never as header text: whatever a name holds, it stays a name.
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
    await writeFile(join(directory, `${newId(clock.wall())}.txt`), `${head.join('\n')}\n\n${text}\n`)
  },
  check: async () => {
    await mkdir(directory, { recursive: true })
    await access(directory, constants.W_OK)
  },
  close: () => {},
})

/** A header is one line: whatever could end it is a space. */
const line = (text: string): string => text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')

/** The address of a sender that may have a name. */
const addressOf = (sender: string): string => /<([^<>]*)>\s*$/.exec(sender)?.[1] ?? sender

export interface Letter extends Message {
  readonly at: Date
}

/** The newest messages that were laid into a folder: the mailbox of a development machine. */
export const readLetters = async (directory: string, most: number): Promise<Letter[]> => {
  const names = (await readdir(directory).catch(() => [])).filter((name) => name.endsWith('.txt'))
  // Ids begin with the moment, so names sort by time.
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
