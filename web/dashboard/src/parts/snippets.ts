import { addressOf } from '@bursar/contract/client'
import type { CodeRequest } from '../app/drawers.ts'
import { island } from '../app/island.ts'

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`

/** The request as a command for curl. The token is a variable of the shell. */
export const curlOf = ({ operation, input }: CodeRequest): string => {
  const address = `${island.origin}${addressOf(operation, input)}`
  const lines = [
    `curl ${operation.method === 'GET' ? '' : `-X ${operation.method} `}${quote(address)}`,
    `-H "Authorization: Bearer $BURSAR_TOKEN"`,
    ...(input.body === undefined ? [] : [`-H 'Content-Type: application/json'`, `-d ${quote(JSON.stringify(input.body))}`]),
  ]
  return lines.join(' \\\n  ')
}

/** The request as a command of the command line. It reads address and token from variables of the shell. */
export const commandOf = ({ operation, input }: CodeRequest): string => {
  const lines = [
    `export BURSAR_API=${quote(island.origin)}`,
    `bursar api ${operation.method} ${quote(addressOf(operation, input))}${input.body === undefined ? '' : ` \\\n  --data ${quote(JSON.stringify(input.body))}`}`,
  ]
  return lines.join('\n')
}

/** The request as TypeScript with `fetch`. */
export const typescriptOf = ({ operation, input }: CodeRequest): string => {
  const address = `${island.origin}${addressOf(operation, input)}`
  const body = input.body === undefined ? '' : `\n  body: JSON.stringify(${JSON.stringify(input.body, null, 2).replaceAll('\n', '\n  ')}),`
  const type = input.body === undefined ? '' : `, 'Content-Type': 'application/json'`
  return `const response = await fetch('${address}', {
  method: '${operation.method}',
  headers: { Authorization: \`Bearer \${process.env.BURSAR_TOKEN}\`${type} },${body}
})
if (!response.ok) throw new Error(await response.text())
console.log(await response.json())`
}
