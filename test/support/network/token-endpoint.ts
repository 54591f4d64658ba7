import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { endFileOnError } from '../or-fail.ts'

/** A request to a token endpoint. */
export interface TokenRequest {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly form: Readonly<Record<string, string>>
}

/** A token endpoint that records requests and answers as a test wants. */
export interface TestTokenEndpoint {
  readonly url: string
  readonly port: number
  readonly requests: TokenRequest[]
  /** Answers a request; by default with an exchanged token, see `exchanged`. */
  answer: (request: TokenRequest, response: ServerResponse) => void | Promise<void>
  close(): Promise<void>
}

/** Returns the answer to an exchange, as in RFC 8693 section 2.2.1. */
export const buildExchanged = (token: string, more: Readonly<Record<string, unknown>> = {}): object => ({
  access_token: token,
  issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
  token_type: 'Bearer',
  expires_in: 600,
  ...more,
})

/** Returns the claims of a JWT without verifying it. */
export const decodeClaims = (token = ''): { readonly iss?: string; readonly sub?: string } =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString() || '{}')

/** Returns the subject of a JWT without verifying it. */
export const readSubject = (token = ''): string => decodeClaims(token).sub ?? ''

export function respond(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}

/**
 * Starts the endpoint. By default each exchanged token names its subject, its audience and the number of earlier ones.
 */
export async function startTokenEndpoint(port = 0): Promise<TestTokenEndpoint> {
  const requests: TokenRequest[] = []
  const endpoint = { requests } as unknown as TestTokenEndpoint
  endpoint.answer = ({ form }, response) => {
    const who = form['grant_type'] === 'client_credentials' ? 'gateway' : readSubject(form['subject_token'])
    respond(response, 200, buildExchanged(`for-${who}-at-${form['audience'] ?? 'any'}-${requests.length}`))
  }
  const server = createServer(
    endFileOnError(async (request: IncomingMessage, response: ServerResponse) => {
      let body = ''
      for await (const chunk of request) body += chunk
      const form = Object.fromEntries(new URLSearchParams(body))
      const recorded = { path: request.url ?? '', headers: request.headers, form }
      requests.push(recorded)
      await endpoint.answer(recorded, response)
    }),
  )
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const { port: own } = server.address() as AddressInfo
  return Object.assign(endpoint, {
    url: `http://127.0.0.1:${own}/token`,
    port: own,
    close: async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  })
}
