import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * A fault of the stand-in:
 * - `fail`: answers 500.
 * - `hang`: answers only after `release`.
 * - `unavailable`: answers as VIES does if a member state does not answer.
 * - `close`: closes the connection without an answer.
 * - `body`: the text of the answer.
 */
export type VatFault = 'fail' | 'hang' | 'unavailable' | 'close' | { readonly body: string }

/** Opens a service on this machine that checks VAT numbers. It has the interface of VIES, and misbehaves on request. */
export const openVatStandIn = async ({ timeout_ms = 5000 } = {}) => {
  const registered = new Set<string>()
  const asked: string[] = []
  let fault: VatFault | undefined
  const held: (() => void)[] = []
  const answer = (response: ServerResponse, number: { countryCode: string; vatNumber: string }) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(
      JSON.stringify({
        ...number,
        requestDate: new Date().toISOString(),
        valid: registered.has(number.countryCode + number.vatNumber),
        name: '---',
        address: '---',
      }),
    )
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const number = JSON.parse(Buffer.concat(chunks).toString()) as { countryCode: string; vatNumber: string }
      asked.push(number.countryCode + number.vatNumber)
      if (fault === 'fail') response.writeHead(500).end()
      else if (fault === 'close') request.socket.destroy()
      else if (fault === 'hang') held.push(() => answer(response, number))
      else if (fault === 'unavailable') response.writeHead(200).end('{"actionSucceed":false,"errorWrappers":[{"error":"MS_UNAVAILABLE"}]}')
      else if (fault) response.writeHead(200).end(fault.body)
      else answer(response, number)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    settings: { BURSAR_VAT_URL: `http://127.0.0.1:${port}/check`, BURSAR_VAT_TIMEOUT_MS: String(timeout_ms), BURSAR_EGRESS_LOOPBACK: 'true' },
    /** The numbers of all requests. */
    asked,
    register: (number: string) => void registered.add(number),
    misbehave: (next: VatFault | undefined) => void (fault = next),
    /** Answers the requests that hang. */
    release: () => {
      for (const go of held.splice(0)) go()
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}
export type VatStandIn = Awaited<ReturnType<typeof openVatStandIn>>
