import type { Finding } from '../load.ts'
import { addressFindings, isLoopback, urlFindings } from './url.ts'

interface Issuer {
  readonly issuer?: string
  readonly cluster?: { readonly apiServer?: string }
  readonly jwksUrl?: string
  readonly introspection?: { readonly url?: string }
  readonly insecureAllowHTTP?: boolean
  readonly allowPrivateIP?: boolean | undefined
  /** Whether loopback is called; where absent, it is when the issuer itself is there. */
  readonly allowLoopback?: boolean
  /** Name of that setting, where it has another one. */
  readonly allowedBy?: string
}

/**
 * Plain http is for loopback, elsewhere only with `insecureAllowHTTP`; an issuer has no query (RFC 8414 section 2). What
 * is called is at no address that connections are refused to.
 */
export function issuerFindings(settings: Issuer, at: string, field = 'issuer'): readonly Finding[] {
  const { issuer, jwksUrl, introspection, cluster, insecureAllowHTTP } = settings
  const called = reachableOf(settings)
  const named = [
    ...(issuer === undefined ? [] : [{ text: issuer, pointer: `${at}/${field}` }]),
    ...(jwksUrl === undefined ? [] : [{ text: jwksUrl, pointer: `${at}/jwksUrl` }]),
    ...(cluster?.apiServer === undefined ? [] : [{ text: cluster.apiServer, pointer: `${at}/cluster/apiServer` }]),
    ...(introspection?.url === undefined ? [] : [{ text: introspection.url, pointer: `${at}/introspection/url` }]),
  ]
  return [
    ...named.flatMap(({ text, pointer }) => {
      // Where the keys are named, the issuer is a name that tokens carry.
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

function reachableOf({ issuer = '', cluster, allowPrivateIP, allowLoopback, allowedBy = 'allowPrivateIP' }: Issuer) {
  const url = URL.parse(issuer)
  return {
    allowPrivateIP: cluster !== undefined || allowPrivateIP,
    allowLoopback: allowLoopback ?? (url !== null && isLoopback(url)),
    allowedBy,
  }
}
