import { readFileSync } from 'node:fs'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { isObject } from '../crds/settings/json.ts'
import {
  type AssertionClaims,
  AssertionRefused,
  assertedSubject,
  checkAssertion,
  compilePolicy,
  isIdJag,
  isOnce,
  redeemableAs,
} from '../dataplane/authserver/provider/assertion-policy.ts'
import { deriveSettings } from '../dataplane/authserver/provider/settings.ts'
import { SUBJECT } from '../dataplane/authserver/provider/trusted-issuers.ts'
import type { AuthServerConfig } from '../dataplane/config/auth-server.ts'
import { issuerPolicies } from '../dataplane/config/authserver/inbound-grants.ts'
import { isOn } from '../dataplane/config/check/gateway.ts'
import type { GatewayConfig } from '../dataplane/config/gateway.ts'
import { ownResource } from '../dataplane/gateway/request/setup.ts'
import { boundKey, isBoundToKey, SKEW_S } from '../dataplane/identity/caller.ts'
import { UsageError } from './command.ts'

/** An assertion as in a file. Nothing of it is verified. */
export interface Assertion {
  readonly claims: Readonly<Record<string, unknown>>
  /** `typ` of the header, in lower case. */
  readonly typ: string | undefined
}

export interface Asked {
  readonly issuer?: string | undefined
  readonly resource?: string | undefined
  readonly scope?: string | undefined
}

/** The answer of a workload to an assertion: what its token would allow, or the reason of a refusal. */
export type Redeemable =
  | {
      readonly redeemable: true
      readonly rules: readonly string[]
      readonly subject: string
      readonly resources: readonly string[]
      readonly scopes: readonly string[]
      readonly claims: { readonly name?: string; readonly email?: string; readonly groups?: readonly string[] }
      /** The only client that may redeem it; absent: any. */
      readonly client?: string
      /** The thumbprint of the key whose holder has to prove it (RFC 9449); absent: none. */
      readonly proof?: string
      readonly once: boolean
    }
  | {
      readonly redeemable: false
      readonly reason: string
      readonly error: string
      readonly rules: readonly string[]
    }

/**
 * Reads an assertion: a JWT, or its claims as JSON, an ID-JAG if they name a client. Throws a UsageError for anything
 * else.
 */
export function readAssertion(file: string): Assertion {
  const text = readFileSync(file, 'utf8').trim()
  try {
    if (!text.startsWith('{')) return { claims: decodeJwt(text), typ: decodeProtectedHeader(text).typ?.toLowerCase() }
    const claims: unknown = JSON.parse(text)
    if (!isObject(claims)) throw new Error('no object')
    return { claims, typ: Object.hasOwn(claims, 'client_id') ? 'oauth-id-jag+jwt' : 'jwt' }
  } catch {
    throw new UsageError('--assertion: must hold a JWT, or its claims as a JSON object')
  }
}

/**
 * Returns what a workload's token endpoint would give for an assertion. Signature, client and earlier use are not
 * checked. `nowS`: seconds since 1970.
 */
export function explainAssertion(
  config: GatewayConfig & { readonly authServer: AuthServerConfig },
  assertion: Assertion,
  asked: Asked,
  nowS: number,
): Redeemable {
  const { claims: unchecked, typ } = assertion
  try {
    const settings = deriveSettings(config.authServer, ownResource(config, ''))
    const { issuer, policy } = findPolicy(config.authServer, unchecked['iss'], asked.issuer)
    const compiled = compilePolicy(policy, issuer)
    const claims = checkClaims(assertion, [settings.issuer, ...(policy.acceptedAudiences ?? [])], nowS)
    const proof = findProof(assertion, config.authServer)
    const client = isIdJag(typ) ? readClient(unchecked) : undefined
    const request = { claims, typ, resource: asked.resource, scope: asked.scope }
    checkAssertion(compiled, settings, request, nowS)
    const { rules, marks: _, audience, scopes, ...kept } = redeemableAs(compiled, settings, request)
    const subject = assertedSubject({ issuer: issuer.issuerUrl, server: settings.issuer }, claims, policy)
    if (subject === undefined) throw new AssertionRefused('tenant')
    return {
      redeemable: true,
      rules,
      subject,
      resources: [audience],
      scopes,
      claims: kept,
      ...(client !== undefined && { client }),
      ...(proof !== undefined && { proof }),
      once: isOnce(compiled, typ),
    }
  } catch (error) {
    if (!(error instanceof AssertionRefused)) throw error
    return { redeemable: false, reason: error.reason, error: error.code, rules: error.rules }
  }
}

/** Returns the policy for the issuer of an assertion, which must be the one that is asked about, if any. */
function findPolicy(authServer: AuthServerConfig, iss: unknown, asked: string | undefined) {
  const candidates = issuerPolicies(authServer).filter(
    ({ issuer: { name, issuerUrl } }) => asked === undefined || [name, issuerUrl].includes(asked),
  )
  const found = candidates.find(({ issuer }) => issuer.issuerUrl === iss)
  if (found?.jwtBearer !== undefined) return { issuer: found.issuer, policy: found.jwtBearer }
  const isMisspelt = candidates.some(({ issuer: { issuerUrl } }) => issuerUrl === `${iss}/` || `${issuerUrl}/` === iss)
  throw new AssertionRefused(isMisspelt ? 'issuer_spelling' : 'untrusted_issuer')
}

const TYPES: ReadonlySet<string | undefined> = new Set([undefined, 'jwt', 'application/jwt'])

/** Checks what the verification of a JWT checks besides its signature. */
function checkClaims({ claims, typ }: Assertion, audiences: readonly string[], nowS: number): AssertionClaims {
  const { aud, exp, nbf, sub } = claims
  const one = Array.isArray(aud) && aud.length === 1 ? aud[0] : aud
  if (typeof exp !== 'number') throw new AssertionRefused('exp')
  if (exp + SKEW_S <= nowS) throw new AssertionRefused('expired')
  if (nbf !== undefined && !(typeof nbf === 'number' && nbf <= nowS + SKEW_S)) throw new AssertionRefused('nbf')
  if (!audiences.includes(one as string)) throw new AssertionRefused('audience')
  if (!TYPES.has(typ) && !isIdJag(typ)) throw new AssertionRefused('typ')
  if (typeof sub !== 'string' || !SUBJECT.test(sub)) throw new AssertionRefused('sub')
  return claims as unknown as AssertionClaims
}

/** Returns the key that an assertion is bound to: only an ID-JAG may be, where the token endpoint takes proofs. */
function findProof({ claims, typ }: Assertion, { dpop }: AuthServerConfig): string | undefined {
  if (!isBoundToKey(claims)) return undefined
  const key = boundKey(claims)
  if (!isOn(dpop) || key === undefined || !isIdJag(typ)) throw new AssertionRefused('cnf')
  return key
}

function readClient({ client_id: client }: Assertion['claims']): string {
  if (typeof client !== 'string' || client === '') throw new AssertionRefused('client')
  return client
}

export function formatRedeemable(workload: string, found: Redeemable): string {
  const rules = found.rules.length === 0 ? '' : ` (${found.rules.join(', ')})`
  if (!found.redeemable) return `${workload}: refused: ${found.reason}${rules}: the client gets ${found.error}\n`
  const { name, email, groups } = found.claims
  const lines = [
    `${workload}: redeemable by ${found.rules.join(', ')}`,
    `  subject: ${found.subject}`,
    `  resources: ${found.resources.join(' ')}`,
    `  scopes: ${found.scopes.join(' ') || 'none'}`,
    ...(name === undefined ? [] : [`  name: ${name}`]),
    ...(email === undefined ? [] : [`  email: ${email}`]),
    ...(groups === undefined ? [] : [`  groups: ${groups.join(' ') || 'none'}`]),
    ...(found.client === undefined ? [] : [`  client: ${found.client}`]),
    ...(found.proof === undefined ? [] : [`  proof: of the key ${found.proof} (DPoP)`]),
    `  use: ${found.once ? 'once' : 'until it expires'}`,
  ]
  return `${lines.join('\n')}\n`
}
