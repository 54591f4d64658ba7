import type { Finding } from '../load.ts'
import { addressFindings, isLoopback, urlFindings } from './url.ts'

interface Issuer {
  readonly issuer?: string
  readonly cluster?: { readonly apiServer?: string }
  readonly jwksUrl?: string
  readonly introspection?: { readonly url?: string }
  readonly insecureAllowHTTP?: boolean
  readonly allowPrivateIP?: boolean | undefined
  /** Tells whether loopback may be called. If absent, it may be called when the issuer itself is on loopback. */
  readonly allowLoopback?: boolean
  /** The name of that setting, if it differs. */
  readonly allowedBy?: string
}

/**
 * Checks an issuer. Plain http is for loopback, elsewhere only with `insecureAllowHTTP`. No query (RFC 8414 section 2).
 * A URL that is called must be at an allowed address.
 */
export function issuerFindings(settings: Issuer, at: string, field = 'issuer'): readonly Finding[] {
  const { issuer, jwksUrl, introspection, cluster, insecureAllowHTTP } = settings
  const called = readReachable(settings)
  const named = [
    ...(issuer === undefined ? [] : [{ text: issuer, pointer: `${at}/${field}` }]),
    ...(jwksUrl === undefined ? [] : [{ text: jwksUrl, pointer: `${at}/jwksUrl` }]),
    ...(cluster?.apiServer === undefined ? [] : [{ text: cluster.apiServer, pointer: `${at}/cluster/apiServer` }]),
    ...(introspection?.url === undefined ? [] : [{ text: introspection.url, pointer: `${at}/introspection/url` }]),
  ]
  return [
    ...named.flatMap(({ text, pointer }) => {
      // If `jwksUrl` names the keys, the issuer is only a name inside tokens and is not called.
      const isCalled = text !== issuer || jwksUrl === undefined
      const findings = [...urlFindings(text, pointer), ...(isCalled ? addressFindings(text, pointer, called) : [])]
      const url = URL.parse(text)
      if (url?.protocol !== 'http:' || isLoopback(url) || insecureAllowHTTP === true) return findings
      return [
        ...findings,
        { pointer, message: 'must be https; plain http is for loopback, or needs insecureAllowHTTP: true' },
      ]
    }),
    ...(issuer?.includes('?') ? [{ pointer: `${at}/${field}`, message: 'must have no query' }] : []),
  ]
}

function readReachable({ issuer = '', cluster, allowPrivateIP, allowLoopback, allowedBy = 'allowPrivateIP' }: Issuer) {
  const url = URL.parse(issuer)
  return {
    allowPrivateIP: cluster !== undefined || allowPrivateIP,
    allowLoopback: allowLoopback ?? (url !== null && isLoopback(url)),
    allowedBy,
  }
}
