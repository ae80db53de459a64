import { createInterface } from 'node:readline/promises'
import { requestSignInCode, signOut, verifySecondFactor, verifySignInCode } from '@bursar/contract'
import { connect, type Client } from '@bursar/contract/client'
import { sendToApi } from './send.ts'

/** Prompts the user at the terminal. A piped answer works too. */
const ask = async (question: string): Promise<string> => {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return (await terminal.question(question)).trim()
  } finally {
    terminal.close()
  }
}

/**
 * Signs a user in at a running deployment with a code from their e-mail. Asks for the second factor if they have one.
 * Ends the session afterwards. Used for changes that require a signed-in user instead of a token.
 */
export const asPerson = async <T>(base: string, email: string, work: (api: Client) => Promise<T>): Promise<T> => {
  const cookies = new Map<string, string>()
  const api = connect(
    async ({ method, url, headers, body }) => {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
      const answer = await sendToApi(method, new URL(url, base).href, body, { ...headers, ...(cookie === '' ? {} : { cookie }) })
      for (const line of answer.headers.getSetCookie()) {
        const [pair = ''] = line.split(';')
        cookies.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1))
      }
      return answer
    },
    { 'sec-fetch-site': 'same-origin', 'bursar-csrf': '1' },
  )
  await api.call(requestSignInCode, { body: { email } })
  const first = await api.send(verifySignInCode, { body: { email, code: await ask(`Enter the code that was mailed to ${email}: `) } })
  if (first.status === 403) await api.call(verifySecondFactor, { body: { code: await ask('Enter the code of your authenticator, or a recovery code: ') } })
  else if (first.status !== 200) throw new Error('this code is wrong, used or expired. Run the command again for a new one')
  try {
    return await work(api)
  } finally {
    await api.send(signOut, {})
  }
}
