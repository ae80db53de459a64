import { mkdtemp, readdir, readFile, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openMailbox, type Mailbox } from '../../../test/harness/mail.ts'
import { openClock } from '../../../test/harness/world.ts'
import { Secret } from '../../kernel/secrets.ts'
import { openMail, readLetters } from './mail.ts'

const from = 'Bursar <bursar@bursar.test>'
const common = { to: 'anna@people.test', subject: 'Hello', text: 'First.\n\nSecond.' }

/** Sender names: a description for the test title, the name, and the name that a mail client must show. */
const names: readonly [string, string, string][] = [
  ['a plain one', 'Acme', 'Acme'],
  ['quotes and backslashes', 'The "Best" \\ Shop', 'The "Best" \\ Shop'],
  ['other scripts', 'Zoë & 株式会社 🎈', 'Zoë & 株式会社 🎈'],
  ['an address', 'support@bank.test', 'support@bank.test'],
  ['an address in brackets', 'Bank <support@bank.test>', 'Bank <support@bank.test>'],
  ['several addresses', 'a@b.test, c@d.test; e', 'a@b.test, c@d.test; e'],
  ['a comment', 'Acme (really) :group;', 'Acme (really) :group;'],
  ['a line break', 'Evil\r\nBcc: spy@people.test', 'Evil Bcc: spy@people.test'],
  ['a lone line feed', 'Evil\nBcc: spy@people.test\n\nText', 'Evil Bcc: spy@people.test Text'],
  ['a lone carriage return', 'Evil\rBcc: spy@people.test', 'Evil Bcc: spy@people.test'],
  ['Unicode line and paragraph separators', 'Evil\u2028Bcc: spy@people.test\u2029', 'Evil Bcc: spy@people.test '],
  ['a very long name', 'Long '.repeat(51).trim(), 'Long '.repeat(51).trim()],
]

describe('SMTP', () => {
  let mailbox: Mailbox
  let mail: ReturnType<typeof openMail>
  beforeAll(async () => {
    mailbox = await openMailbox()
    mail = openMail({ from, smtp_url: new Secret(mailbox.url), readable: false }, openClock())
  })
  afterAll(async () => {
    mail.close()
    await mailbox.close()
  })

  test("sends a mail without a sender name from the deployment's address, without reply-to", async () => {
    await mail.send(common)
    const letter = await mailbox.next(common.to)
    expect(letter).toMatchObject({ from: { name: 'Bursar', address: 'bursar@bursar.test' }, reply_to: [], subject: 'Hello' })
    expect(letter.text.trim()).toBe(common.text)
  })

  test.each(names)('sends a mail with an unusual or hostile sender name without additional recipients or headers: %s', async (_, name, read) => {
    await mail.send(common)
    const usual = (await mailbox.next(common.to)).headers.toSorted()
    await mail.send({ ...common, subject: `Receipt from ${name}`, from_name: name, reply_to: 'help@acme.test' })
    const letter = await mailbox.next(common.to)
    expect(letter.from.address).toBe('bursar@bursar.test')
    expect(letter.from.name.trim()).toBe(read.trim())
    expect(letter.reply_to).toEqual(['help@acme.test'])
    expect(letter.headers.toSorted()).toEqual([...usual, 'reply-to'].toSorted())
    expect(letter.text.trim()).toBe(common.text)
    expect(mailbox.letters).toEqual([])
  })

  test('ignores a second recipient hidden in an address', async () => {
    const sent = await mail.send({ ...common, to: 'anna@people.test\r\nBcc: spy@people.test', reply_to: 'help@acme.test\r\nBcc: spy@people.test' }).then(
      () => true,
      () => false,
    )
    const letters = mailbox.letters.splice(0)
    expect(letters.length).toBe(sent ? 1 : 0)
    for (const { headers, to } of letters) {
      expect(headers).not.toContain('bcc')
      expect(to.split(', ')).not.toContain('spy@people.test')
    }
  })
})

describe('mail folder', () => {
  test('writes files that only their owner can read, because they contain sign-in codes and links', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'bursar-mail-'))
    await openMail({ from, directory, readable: true }, openClock()).send(common)
    const [name] = await readdir(directory)
    expect((await stat(join(directory, name!))).mode & 0o777).toBe(0o600)
  })

  test.each(names)('writes a sender name on one header line: %s', async (_, name, read) => {
    const directory = await mkdtemp(join(tmpdir(), 'mail-'))
    const mail = openMail({ from, directory, readable: false }, openClock())
    await mail.send({ ...common, subject: `Receipt from ${name}`, from_name: name, reply_to: 'help@acme.test' })
    const [file] = await readdir(directory)
    const [head, ...body] = (await readFile(join(directory, file!), 'utf8')).split('\n\n')
    expect(head!.split('\n')).toEqual([
      `From: "${read.replaceAll(/["\\]/g, '\\$&')}" <bursar@bursar.test>`,
      'Reply-To: help@acme.test',
      'To: anna@people.test',
      `Subject: Receipt from ${read}`,
    ])
    expect(body.join('\n\n')).toBe(`${common.text}\n`)
    expect(await readLetters(directory, 5)).toMatchObject([{ ...common, subject: `Receipt from ${read}` }])
  })

  test("sends a mail without a sender name from the deployment's address", async () => {
    const directory = await mkdtemp(join(tmpdir(), 'mail-'))
    await openMail({ from: 'plain@bursar.test', directory, readable: false }, openClock()).send(common)
    const [file] = await readdir(directory)
    expect(await readFile(join(directory, file!), 'utf8')).toBe(`From: plain@bursar.test\nTo: anna@people.test\nSubject: Hello\n\n${common.text}\n`)
  })
})
