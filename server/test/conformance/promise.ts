import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** "GET /v1/organizations/{}": an operation, whatever its parameters are called and with or without the last slash. */
export const keyOf = (method: string, path: string): string => `${method.toUpperCase()} ${path.replace(/\/+$/, '').replace(/\{[^}]+\}/g, '{}')}`

/** What the specification names beside what the official client can call. */
const besideTheClient = ['GET /v1/members', 'GET /v1/customer-seats/{}', 'GET /v1/benefit-grants/{}']

const walk = (directory: string): string[] =>
  readdirSync(directory).flatMap((name) => {
    const path = join(directory, name)
    return statSync(path).isDirectory() ? walk(path) : [path]
  })

/** The 193 operations: every one that the official client of this version can call, and three that only the specification names. */
export const promised = (): Set<string> => {
  const folder = new URL('../../node_modules/polar-sdk/dist/2026-04/', import.meta.url).pathname
  const calls = walk(folder)
    .filter((name) => name.endsWith('.mjs'))
    .flatMap((name) => [...readFileSync(name, 'utf8').matchAll(/buildRequest\("([A-Z]+)", "([^"]+)"/g)].map(([, method, path]) => keyOf(method!, path!)))
  return new Set([...calls, ...besideTheClient])
}

/** The ids of requirements that a test title of this project carries. */
export const requirements = (): Set<string> => {
  const tests = ['contract/src', 'server/src', 'server/test'].flatMap(walk).filter((name) => name.endsWith('.test.ts'))
  return new Set(tests.flatMap((name) => [...readFileSync(name, 'utf8').matchAll(/S\d+-\d+(?=[\]\s,])/g)].map(([id]) => id)))
}
