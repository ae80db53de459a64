import { expect, test } from 'vitest'
import { isUnreachable, isUnreachableReport } from './statuses.ts'

const dead = [
  '550 5.1.1 <ada@people.test> No such user',
  '550 5.1.10 Recipient address rejected: no such address',
  '550 5.2.1 The account is disabled',
  '550 No such user here',
  // The code 5.1.0 leaves the reason open. The text names the mailbox.
  '550 5.1.0 <ada@people.test> User unknown',
  '550 5.1.0 Recipient rejected',
]
const alive = [
  // The code 5.1.0 against the sender.
  '550 5.1.0 sender rejected',
  '550 5.1.0 <shop@sender.test> Sender address rejected: Domain not found',
  '550 5.1.0 Address rejected because of a low reputation',
  '550 5.1.0 Your account is rejected from this IP',
  '550 5.1.0 Rejected: the host of this user sends too much',
  '550 5.1.0 Bad syntax',
  '550 5.7.1 Relaying denied',
  '550 Blocked: recipient policy',
  '552 5.2.2 Mailbox full',
  '450 5.1.0 User unknown',
]

test.each(dead)('takes %j for a mailbox that does not exist', (answer) => {
  expect(isUnreachable(Number(answer.slice(0, 3)), answer)).toBe(true)
})

test.each(alive)('suppresses nothing for %j', (answer) => {
  expect(isUnreachable(Number(answer.slice(0, 3)), answer)).toBe(false)
})

test('reads the text of a report whose status leaves the reason open, with and without the same code in the text', () => {
  for (const status of ['5.1.0', '5.0.0']) {
    for (const answer of ['550 5.1.0 User unknown', '550 User unknown', '550 5.1.1 No such user']) expect(isUnreachableReport(status, answer)).toBe(true)
    for (const answer of ['550 5.1.0 sender rejected', '550 Sender address rejected', '']) expect(isUnreachableReport(status, answer)).toBe(false)
  }
  expect(isUnreachableReport('5.1.1', '')).toBe(true)
})
