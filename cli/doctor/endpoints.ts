import { isLoopback } from '../../dataplane/config/check/url.ts'
import { error, type Finding, note, ok, shown, warning } from './finding.ts'
import type { Metadata } from './metadata.ts'
import type { Subject } from './subject.ts'

const textsIn = (metadata: Metadata, name: string): readonly unknown[] | undefined => {
  const value = metadata[name]
  return Array.isArray(value) ? value : undefined
}

/** Checks that a needed endpoint exists and uses https. */
function endpointFinding(metadata: Metadata, name: string, { insecureAllowHTTP }: Subject, needed: boolean): Finding[] {
  const value = metadata[name]
  const url = typeof value === 'string' ? URL.parse(value) : null
  if (url === null) {
    const message = `${name} is ${shown(value)}`
    const fix = 'use an issuer that lets people log in by the authorization code flow'
    return [needed ? error('login', message, fix) : warning('login', message, fix)]
  }
  if (url.protocol === 'https:' || isLoopback(url) || insecureAllowHTTP) return []
  return [error('login', `${name} is at ${url.protocol}//${url.host}, which is not https`, 'serve it over https')]
}

/** Checks that users can log in: by the code flow with PKCE (OAuth 2.1), which all MCP clients use. */
export function loginFindings(metadata: Metadata, subject: Subject): readonly Finding[] {
  const needed = subject.use === 'login'
  const findings = ['authorization_endpoint', 'token_endpoint'].flatMap((name) =>
    endpointFinding(metadata, name, subject, needed),
  )
  const responses = textsIn(metadata, 'response_types_supported')
  if (responses !== undefined && !responses.includes('code'))
    findings.push(
      error('login', `response_types_supported is ${shown(responses)}`, 'allow the authorization code flow'),
    )
  const challenges = textsIn(metadata, 'code_challenge_methods_supported')
  if (challenges?.includes('S256')) findings.push(ok('login', 'the code flow with PKCE (S256)'))
  else
    findings.push(
      warning(
        'login',
        `code_challenge_methods_supported is ${shown(challenges)}`,
        needed
          ? 'PKCE is sent anyway; most providers accept it'
          : 'MCP clients refuse an issuer that does not list S256: log in through authServerConfig instead',
      ),
    )
  if (!needed) findings.push(registrationFinding(metadata))
  return findings
}

function registrationFinding(metadata: Metadata): Finding {
  if (metadata['client_id_metadata_document_supported'] === true)
    return ok('clients', 'clients need no registration (client id metadata documents)')
  if (typeof metadata['registration_endpoint'] === 'string')
    return ok('clients', 'clients register themselves (registration_endpoint)')
  const fix = 'register each client by hand, or let authServerConfig register them'
  return warning('clients', 'clients can’t register themselves there', fix)
}

export function scopeFindings(metadata: Metadata, { scopes, use }: Subject): readonly Finding[] {
  if (scopes.length === 0) return []
  const listed = textsIn(metadata, 'scopes_supported')
  if (listed === undefined) return [note('scopes', `it does not list its scopes; asked for: ${scopes.join(' ')}`)]
  const missing = scopes.filter((scope) => !listed.includes(scope))
  if (missing.length === 0) return [ok('scopes', `it has ${scopes.join(' ')}`)]
  const what = use === 'login' ? 'log in' : 'get in'
  const fix = `register them there; if it only does not list them, check that a user can ${what} with them`
  return [warning('scopes', `not among those that it lists: ${missing.join(' ')}`, fix)]
}

/** Checks the introspection of opaque tokens: an endpoint exists, and credentials may go there. */
export function introspectionFindings(metadata: Metadata, subject: Subject): readonly Finding[] {
  if (subject.use !== 'tokens') return []
  const value = metadata['introspection_endpoint']
  const url = typeof value === 'string' ? URL.parse(value) : null
  if (!subject.introspects) {
    const can = url === null ? 'it has no introspection endpoint' : 'clientSecretRef would let them be introspected'
    return [note('opaque tokens', `are not accepted (JWTs are); ${can}`)]
  }
  if (subject.introspectionUrl !== undefined)
    return [ok('opaque tokens', `are introspected at ${subject.introspectionUrl}`)]
  if (url === null)
    return [error('opaque tokens', `introspection_endpoint is ${shown(value)}`, 'set inline.introspectionUrl')]
  if (url.origin === new URL(subject.issuer).origin) return [ok('opaque tokens', `are introspected at ${url.href}`)]
  const fix = `set inline.introspectionUrl: ${url.href}, if that is right`
  return [error('opaque tokens', `the introspection endpoint is at another origin, ${url.origin}`, fix)]
}
