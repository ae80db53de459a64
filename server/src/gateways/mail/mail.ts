import { access, constants, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createTransport } from 'nodemailer'
import { newId, timeOf } from '../../kernel/ids.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import { isUnreachable } from './statuses.ts'

export interface Message {
  readonly to: string
  readonly subject: string
  readonly text: string
  /** The same content as HTML. Mail programs show it instead of the text. */
  readonly html?: string | undefined
  /** Sender name. */
  readonly from_name?: string | undefined
  /** Sender address, if it differs from the deployment's. Only addresses that the operator has allowed. */
  readonly from_address?: string | undefined
  /** Address for replies. */
  readonly reply_to?: string | undefined
  /** Address to which bounces return, and id of the message. Both contain the token of the mail. */
  readonly tracked?: { readonly return_path: string; readonly message_id: string } | undefined
}

/** The mail server reports that the address cannot be reached. Another try would have the same result. */
export class RecipientRejected extends Error {}

/** Sends mail. Throws `RecipientRejected`, or another error on a failure after which the calling job retries. */
export interface Mail {
  send(message: Message): Promise<void>
  /** Checks the connection to the mail server without sending mail. Throws if mail cannot be sent now. */
  check(): Promise<void>
  close(): void
}

/** Opens the configured mail server, or otherwise a folder that stores each message as a file. */
export const openMail = (config: Omit<Config['mail'], 'bounces' | 'dkim_selectors'>, clock: Clock): Mail =>
  config.smtp_url ? smtp(config.smtp_url.reveal(), config.from) : folder(config.directory!, config.from, clock)

const smtp = (url: string, from: string): Mail => {
  // Mails contain codes and links, so connections to other machines must be encrypted.
  const loopback = ['127.0.0.1', '[::1]', 'localhost'].includes(new URL(url).hostname)
  const transport = createTransport({ url, requireTLS: !loopback, connectionTimeout: 5_000, greetingTimeout: 5_000, socketTimeout: 10_000 }, { from })
  return {
    send: async ({ to, subject, text, html, from_name, from_address, reply_to, tracked }) => {
      // Passes names and addresses as separate values, never as header text. This prevents header injection by a name.
      const sending = transport.sendMail({
        to: { name: '', address: to },
        subject,
        text,
        ...(html === undefined ? {} : { html }),
        ...(from_name === undefined && from_address === undefined
          ? {}
          : { from: { name: line(from_name ?? ''), address: line(from_address ?? addressOf(from)) } }),
        // The envelope keeps the address of the deployment, so that bounces return to it and not to an organization.
        envelope: { from: tracked?.return_path ?? addressOf(from), to: { name: '', address: to } },
        ...(tracked === undefined ? {} : { messageId: `<${tracked.message_id}>` }),
        ...(reply_to === undefined ? {} : { replyTo: { name: '', address: reply_to } }),
      })
      await sending.catch((error: unknown) => {
        const { command, response, responseCode } = error as { command?: string; response?: string; responseCode?: number }
        if (command === 'RCPT TO' && responseCode !== undefined && isUnreachable(responseCode, response ?? '')) throw new RecipientRejected(response)
        throw error
      })
    },
    check: async () => {
      await transport.verify()
    },
    close: () => transport.close(),
  }
}

const folder = (directory: string, from: string, clock: Clock): Mail => ({
  send: async ({ to, subject, text, html, from_name, from_address, reply_to, tracked }) => {
    const address = from_address ?? addressOf(from)
    const headers = {
      'Return-Path': tracked && `<${tracked.return_path}>`,
      'Message-ID': tracked && `<${tracked.message_id}>`,
      From: from_name === undefined ? (from_address ?? from) : `"${from_name.replaceAll(/["\\]/g, '\\$&')}" <${address}>`,
      'Reply-To': reply_to,
      To: to,
      Subject: subject,
    }
    const head = Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${line(value)}`]))
    await mkdir(directory, { recursive: true })
    const name = newId(clock.wall())
    // The HTML part is written first, because a reader of the folder looks for the text.
    if (html !== undefined) await writeFile(join(directory, `${name}.html`), html, { mode: 0o600 })
    await writeFile(join(directory, `${name}.txt`), `${head.join('\n')}\n\n${text}\n`, { mode: 0o600 })
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
export const addressOf = (sender: string): string => /<([^<>]*)>\s*$/.exec(sender)?.[1] ?? sender

export interface Letter extends Message {
  /** The name of the message in the folder. */
  readonly id: string
  readonly at: Date
  readonly has_html: boolean
}

/** Returns the HTML part of a message in a mail folder. Undefined if there is none. */
export const readHtml = (directory: string, id: string): Promise<string | undefined> => readFile(join(directory, `${id}.html`), 'utf8').catch(() => undefined)

/** Returns the newest messages of a mail folder, the mailbox of a development machine. */
export const readLetters = async (directory: string, most: number): Promise<Letter[]> => {
  const all = await readdir(directory).catch((): string[] => [])
  const names = all.filter((name) => name.endsWith('.txt'))
  // File names are ids, which start with a timestamp. Sorting by name therefore sorts by time.
  return Promise.all(
    names
      .toSorted()
      .toReversed()
      .slice(0, most)
      .map(async (name) => {
        const [head = '', ...rest] = (await readFile(join(directory, name), 'utf8')).split('\n\n')
        const header = (field: string) => new RegExp(`^${field}: (.*)$`, 'm').exec(head)?.[1] ?? ''
        const id = name.replace(/\.txt$/, '')
        return { id, at: timeOf(id), has_html: all.includes(`${id}.html`), to: header('To'), subject: header('Subject'), text: rest.join('\n\n').trim() }
      }),
  )
}
