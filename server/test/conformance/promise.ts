import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Returns a key such as "GET /v1/organizations/{}". Parameter names and a trailing slash do not matter. */
export const keyOf = (method: string, path: string): string => `${method.toUpperCase()} ${path.replace(/\/+$/, '').replace(/\{[^}]+\}/g, '{}')}`

/** Operations that the specification names but for which the current official client has no method. */
const besideTheClient = ['GET /v1/members', 'GET /v1/customer-seats/{}', 'GET /v1/benefit-grants/{}']

const walk = (directory: string): string[] =>
  readdirSync(directory).flatMap((name) => {
    const path = join(directory, name)
    return statSync(path).isDirectory() ? walk(path) : [path]
  })

/**
 * Returns the 193 operations that this project promises. The official client of this version can call 190 of them. The
 * other three are only in the specification.
 */
export const promised = (): Set<string> => {
  const folder = new URL('../../node_modules/polar-sdk/dist/2026-04/', import.meta.url).pathname
  const calls = walk(folder)
    .filter((name) => name.endsWith('.mjs'))
    .flatMap((name) => [...readFileSync(name, 'utf8').matchAll(/buildRequest\("([A-Z]+)", "([^"]+)"/g)].map(([, method, path]) => keyOf(method!, path!)))
  return new Set([...calls, ...besideTheClient])
}
