import { expect, test } from 'vitest'
import { commandName } from './command-name.ts'

test('names the program as its reader starts it: in a clone, in a project with the npm package, and in the image', () => {
  expect(commandName('file:///clone/server/src/kernel/command-name.ts', '/clone/server/bin/bursar.js')).toBe('pnpm bursar')
  expect(commandName('file:///shop/node_modules/bursar/dist/kernel/command-name.js', '/shop/node_modules/.bin/bursar')).toBe('npx bursar')
  expect(commandName('file:///app/server/src/kernel/command-name.ts', '/usr/local/bin/bursar')).toBe('bursar')
})
