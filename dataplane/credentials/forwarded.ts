import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Credential, Strategy, Subject } from './credential.ts'

/** Of one request, in characters: more is no credential. */
const LONGEST = 64 * 1024

/**
 * The credential that a request brings for the server itself, as a flat list of headers; undefined where it brings none.
 * `names` in lower case.
 */
export function forwardedHeaders(names: readonly string[], from: IncomingHttpHeaders): readonly string[] | undefined {
  const headers = names.flatMap((name) => {
    const value = from[name]
    return typeof value === 'string' && value !== '' ? [name, value] : []
  })
  const length = headers.reduce((sum, text) => sum + text.length, 0)
  return headers.length === 0 || length > LONGEST ? undefined : headers
}

/** Who brings a credential that is not checked here: whoever has the same one. Of it nothing but its digest is in the name. */
export const bearerOf = (headers: readonly string[]): Subject => ({
  issuer: 'forwarded',
  subject: hash('sha256', JSON.stringify(headers), 'base64url'),
  claims: {},
  token: '',
  forwarded: headers,
})

/** Hands on what each request brings; the digest that the subject is named by keeps one from serving for another. */
export const forwarded = (): Strategy => ({
  key: 'forwarded',
  isFinal: true,
  obtain: ({ forwarded: headers = [] }): Promise<Credential> =>
    Promise.resolve({ headers, expiresAt: Number.POSITIVE_INFINITY }),
  close: () => Promise.resolve(),
})
