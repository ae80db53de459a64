import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createTransport } from 'nodemailer'
import { newId, timeOf } from '../../kernel/ids.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'

export interface Message {
  readonly to: string
  readonly subject: string
  readonly text: string
}

/** Sends mail, or throws: the job that called tries again later. */
export interface Mail {
  send(message: Message): Promise<void>
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
    send: async (message) => {
      await transport.sendMail(message)
    },
    close: () => transport.close(),
  }
}

const folder = (directory: string, from: string, clock: Clock): Mail => ({
  send: async (message) => {
    await mkdir(directory, { recursive: true })
    await writeFile(join(directory, `${newId(clock.wall())}.txt`), `From: ${from}\nTo: ${message.to}\nSubject: ${message.subject}\n\n${message.text}\n`)
  },
  close: () => {},
})

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
