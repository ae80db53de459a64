import { readFileSync } from 'node:fs'

const page = readFileSync(new URL('../../../docs/guides/license-keys.md', import.meta.url), 'utf8')

export type ReadLicence = (token: string, given: { keys: readonly object[]; organization_id: string; now?: number }) => Record<string, unknown>

/** Loads the licence verifier from the code of the license key guide. */
export const documentedVerifier = async (): Promise<ReadLicence> => {
  const [, code] = /```js\n([^]*?)```/.exec(page)!
  const { readLicence } = (await import(`data:text/javascript,${encodeURIComponent(code!)}`)) as { readLicence: ReadLicence }
  return readLicence
}
