import { createFile, deleteFile } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'

const mebibyte = 1024 * 1024
let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true, settings: { BURSAR_FILE_LIMIT_MIB: '2', BURSAR_STORAGE_QUOTA_MIB: '5' } })
})
afterAll(() => world.close())

const announce = (api: Client, size: number) =>
  api.send(createFile, {
    body: {
      service: 'downloadable',
      name: 'file.bin',
      mime_type: 'application/octet-stream',
      size,
      upload: { parts: [{ number: 1, chunk_start: 0, chunk_end: size }] },
    },
  })

test('rejects a file that is larger than the limit of one file, and says what to do', async () => {
  const { api } = await world.shop()
  const { status, body } = await announce(api, 2 * mebibyte + 1)
  expect(status).toBe(422)
  expect(body).toMatchObject({
    detail: [{ loc: ['body', 'size'], msg: expect.stringMatching(/Received 2097153 bytes.*at most 2097152 bytes.*ask the operator/) }],
  })
  expect((await announce(api, 2 * mebibyte)).status).toBe(201)
})

test('limits the files of an organization to its quota, also for twenty concurrent announcements', async () => {
  const { api } = await world.shop()
  const answers = await Promise.all(Array.from({ length: 20 }, () => announce(api, mebibyte)))
  const made = answers.filter(({ status }) => status === 201)
  expect(made).toHaveLength(5)
  for (const { status, body } of answers.filter((answer) => !made.includes(answer))) {
    expect(status).toBe(403)
    expect(body).toMatchObject({
      error: 'StorageQuotaExceeded',
      detail: expect.stringMatching(/Received 1048576 bytes; the organization uses 5242880 of 5242880 bytes\. Delete files/),
    })
  }
  // Other organizations have their own quota.
  expect((await announce((await world.shop()).api, mebibyte)).status).toBe(201)
  // A deleted file makes room once the store has removed it.
  await api.call(deleteFile, { params: { id: (made[0]!.body as { id: string }).id } })
  await eventually('there is room for one file', async () => (await announce(api, mebibyte)).status === 201)
  expect((await announce(api, 1)).status).toBe(403)
})
