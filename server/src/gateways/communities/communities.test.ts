import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../platform/clock.ts'
import { CommunityRefusal, CommunitySilent, type Place } from './communities.ts'
import { openLocalCommunities } from './local.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'communities-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const places: Place[] = [
  { kind: 'github', repository_owner: 'acme', repository_name: 'engine', permission: 'pull' },
  { kind: 'discord', guild_id: '1', role_id: '2' },
  { kind: 'slack', workspace_id: 'W1', channel_id: 'C1' },
]

test('admits and removes accounts idempotently, and keeps its record of effects across restarts', async () => {
  const local = openLocalCommunities({ folder, clock: systemClock })
  for (const place of places) {
    expect(await local.inspect(place)).toBe('ready')
    await local.admit(place, 'ada')
    await local.admit(place, 'ada')
    await local.admit(place, 'bob')
    await local.dismiss(place, 'bob')
    await local.dismiss(place, 'bob')
  }
  const later = openLocalCommunities({ folder, clock: systemClock })
  expect(places.map((place) => later.present(place))).toEqual([['ada'], ['ada'], ['ada']])
  expect(later.books().length).toBe(9)
})

test('refuses missing places, forbidden places and unknown accounts, and admits an account once if the call is repeated after a lost response', async () => {
  const local = openLocalCommunities({ folder, clock: systemClock })
  const discord = (guild_id: string): Place => ({ kind: 'discord', guild_id, role_id: '2' })
  await expect(local.admit(discord('absent'), 'ada')).rejects.toThrow(CommunityRefusal)
  await expect(local.admit(discord('forbidden'), 'ada')).rejects.toMatchObject({ code: 'forbidden' })
  await expect(local.admit(discord('1'), 'absent')).rejects.toMatchObject({ code: 'unknown_account' })
  const silent = (when: 'before' | 'after') => openLocalCommunities({ folder, clock: systemClock, misbehave: () => when })
  await expect(silent('before').admit(discord('1'), 'ada')).rejects.toThrow(CommunitySilent)
  expect(local.present(discord('1'))).toEqual([])
  await expect(silent('after').admit(discord('1'), 'ada')).rejects.toThrow(CommunitySilent)
  await local.admit(discord('1'), 'ada')
  expect(local.books().map(({ did }) => did)).toEqual(['admitted'])
})
