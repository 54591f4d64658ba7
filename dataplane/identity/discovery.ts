import { isLoopback } from '../config/check/url.ts'
import type { GuardedFetch } from '../net/guarded-fetch.ts'

/**
 * Returns the possible URLs of an issuer's metadata, most common first: OpenID Connect Discovery 1.0 section 4
 * (suffix), RFC 8414 section 3 (inserted) and section 5 (the OpenID name, inserted).
 */
export function discoveryUrls(issuer: string): readonly string[] {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  return [
    ...new Set([
      `${origin}${path}/.well-known/openid-configuration`,
      `${origin}/.well-known/oauth-authorization-server${path}`,
      `${origin}/.well-known/openid-configuration${path}`,
    ]),
  ]
}

const LONGEST_URL = 2048

/** The metadata of an issuer name another issuer (RFC 8414 section 3.3). Even a slash at the end is a difference. */
export class IssuerNameMismatch extends Error {
  override readonly name = 'IssuerNameMismatch'
}

/** The endpoints read from an issuer's metadata (OpenID Connect Discovery 1.0 section 3, RFC 8414 section 2). */
export type Endpoint = 'jwks_uri' | 'introspection_endpoint'

/**
 * Finds an endpoint of an issuer. Throws an Error for the log if nothing answers, if the document names another issuer
 * (RFC 8414 section 3.3), or for forbidden plain http.
 */
export async function discoverEndpoint(
  endpoint: Endpoint,
  issuer: string,
  fetch: GuardedFetch,
  options: { readonly headers: Readonly<Record<string, string>>; readonly allowHTTP: boolean },
): Promise<string> {
  const failures: string[] = []
  for (const url of discoveryUrls(issuer)) {
    const answer = await fetch(url, options.headers)
    const document = answer.status === 200 ? parseDocument(answer.text) : undefined
    if (document !== undefined) return readEndpoint(document, endpoint, issuer, options.allowHTTP)
    failures.push(`${url} answered ${answer.status}${answer.status === 200 ? ' and no JSON' : ''}`)
  }
  throw new Error(`the issuer’s metadata was not found: ${failures.join(', ')}`)
}

/** Parses a JSON text. Returns undefined for any other text. */
export function parseDocument(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const quoteName = (name: unknown): string =>
  typeof name === 'string' && name.length <= LONGEST_URL ? `: ${JSON.stringify(name)}` : ''

function readEndpoint(document: unknown, endpoint: Endpoint, issuer: string, allowHTTP: boolean): string {
  const metadata = (document ?? {}) as { issuer?: unknown } & { [name in Endpoint]?: unknown }
  if (metadata.issuer !== issuer)
    throw new IssuerNameMismatch(`the metadata of ${issuer} name another issuer${quoteName(metadata.issuer)}`)
  const uri = metadata[endpoint]
  const url = typeof uri === 'string' && uri.length <= LONGEST_URL ? URL.parse(uri) : null
  if (url === null) throw new Error(`the metadata of ${issuer} have no ${endpoint}`)
  const acceptable = url.protocol === 'https:' || (url.protocol === 'http:' && (allowHTTP || isLoopback(url)))
  if (!acceptable)
    throw new Error(`the ${endpoint} of ${issuer} is at ${url.protocol}//${url.host}, which is not https`)
  return url.href
}
