import type { Finding } from '../load.ts'
import { isLoopback, urlFindings } from './url.ts'

interface Issuer {
  readonly issuer: string
  readonly jwksUrl?: string
  readonly introspection?: { readonly url?: string }
  readonly insecureAllowHTTP?: boolean
}

/** Plain http is for loopback, elsewhere only with `insecureAllowHTTP`; an issuer has no query (RFC 8414 section 2). */
export function issuerFindings(
  { issuer, jwksUrl, introspection, insecureAllowHTTP }: Issuer,
  at: string,
  field = 'issuer',
): readonly Finding[] {
  const named = [
    { text: issuer, pointer: `${at}/${field}` },
    ...(jwksUrl === undefined ? [] : [{ text: jwksUrl, pointer: `${at}/jwksUrl` }]),
    ...(introspection?.url === undefined ? [] : [{ text: introspection.url, pointer: `${at}/introspection/url` }]),
  ]
  return [
    ...named.flatMap(({ text, pointer }) => {
      const findings = urlFindings(text, pointer)
      const url = URL.parse(text)
      if (url?.protocol !== 'http:' || isLoopback(url) || insecureAllowHTTP === true) return findings
      return [
        ...findings,
        { pointer, message: 'must be https; plain http is for loopback, or needs insecureAllowHTTP: true' },
      ]
    }),
    ...(issuer.includes('?') ? [{ pointer: `${at}/${field}`, message: 'must have no query' }] : []),
  ]
}
