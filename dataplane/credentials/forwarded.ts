import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Credential, Strategy, Subject } from './credential.ts'

const LONGEST = 64 * 1024

/** Returns the credential that a request carries for the server itself, as a flat list. `names` are in lower case. */
export function forwardedHeaders(names: readonly string[], from: IncomingHttpHeaders): readonly string[] | undefined {
  const headers = names.flatMap((name) => {
    const value = from[name]
    return typeof value === 'string' && value !== '' ? [name, value] : []
  })
  const length = headers.reduce((sum, text) => sum + text.length, 0)
  return headers.length === 0 || length > LONGEST ? undefined : headers
}

/** Returns the subject of an unchecked forwarded credential: everybody with the same digest. */
export const bearerOf = (headers: readonly string[]): Subject => ({
  issuer: 'forwarded',
  subject: hash('sha256', JSON.stringify(headers), 'base64url'),
  claims: {},
  token: '',
  forwarded: headers,
})

/** Forwards the credential of each request. The digest in the subject's name prevents its use for another caller. */
export const forwarded = (): Strategy => ({
  key: 'forwarded',
  isFinal: true,
  obtain: ({ forwarded: headers = [] }): Promise<Credential> =>
    Promise.resolve({ headers, expiresAt: Number.POSITIVE_INFINITY }),
  close: () => Promise.resolve(),
})
