import type { Finding, Findings } from '../load.ts'
import { addressFindings, isLoopback, plainHttpFindings, urlFindings } from './url.ts'

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
export const issuerFindings = (settings: Issuer, at: string, field = 'issuer'): readonly Finding[] => [
  ...findingsOf(settings, at, field),
]

function* findingsOf(settings: Issuer, at: string, field: string): Findings {
  const { issuer, jwksUrl, introspection, cluster, insecureAllowHTTP } = settings
  const called = readReachable(settings)
  const named = {
    [field]: issuer,
    jwksUrl,
    'cluster/apiServer': cluster?.apiServer,
    'introspection/url': introspection?.url,
  }
  for (const [name, text] of Object.entries(named)) {
    if (text === undefined) continue
    const pointer = `${at}/${name}`
    yield* urlFindings(text, pointer)
    // If `jwksUrl` names the keys, the issuer is only a name inside tokens and is not called.
    if (text !== issuer || jwksUrl === undefined) yield* addressFindings(text, pointer, called)
    const url = URL.parse(text)
    if (url?.protocol === 'http:') yield* plainHttpFindings(url, pointer, insecureAllowHTTP)
  }
  if (issuer?.includes('?')) yield { pointer: `${at}/${field}`, message: 'must have no query' }
}

function readReachable({ issuer = '', cluster, allowPrivateIP, allowLoopback, allowedBy = 'allowPrivateIP' }: Issuer) {
  const url = URL.parse(issuer)
  return {
    allowPrivateIP: cluster !== undefined || allowPrivateIP,
    allowLoopback: allowLoopback ?? (url !== null && isLoopback(url)),
    allowedBy,
  }
}
