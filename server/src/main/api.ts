import { bursar } from '../kernel/command-name.ts'
import { nearest } from '../kernel/nearest.ts'
import { apiOf, tokenOf, type Door } from './door.ts'
import { reportIgnored, sendToApi } from './send.ts'
import { Usage } from './usage.ts'

interface Values extends Door {
  data?: string | undefined
}

const methods = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE']
const shape = `Write: ${bursar} api ${methods.join('|')} /v1/<path> [--data <json>]`

/** Formats JSON for a terminal. Another text, such as CSV, stays as it is. */
const readable = (text: string): string => {
  try {
    return `${JSON.stringify(JSON.parse(text), null, 2)}\n`
  } catch {
    return text
  }
}

/** Sends one request to the API and prints the answer. Fails if the status is 400 or higher. */
export const api = async ([method = '', path = '', ...rest]: readonly string[], values: Values): Promise<void> => {
  if (!methods.includes(method)) {
    const meant = nearest(method, methods)
    throw new Usage(`there is no method ${method}.${meant === undefined ? '' : ` Did you mean ${meant}?`} ${shape}`)
  }
  if (!path.startsWith('/v1/')) throw new Usage(`the path begins with /v1/, not ${JSON.stringify(path)}. ${shape}`)
  if (rest.length > 0) throw new Usage(`bursar api takes two arguments, but was also given: ${rest.join(' ')}. ${shape}`)
  if (values.data?.startsWith('@')) throw new Usage('--data takes the JSON itself, and reads no file. From a file: --data "$(cat body.json)"')
  const token = tokenOf(values)
  const answer = await sendToApi(method, new URL(path, apiOf(values)).href, values.data, {
    authorization: `Bearer ${token}`,
    ...(values.data === undefined ? {} : { 'content-type': 'application/json' }),
  })
  process.stdout.write(readable(answer.text))
  reportIgnored(answer)
  if (answer.status >= 400) throw new Error(`the API answered ${answer.status}`)
}
