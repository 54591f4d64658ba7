import { createPublicKey, type JsonWebKeyInput } from 'node:crypto'
import { isLoopback } from '../../dataplane/config/check/url.ts'
import { ALGORITHMS } from '../../dataplane/identity/jwt.ts'
import { keySetOf } from '../../dataplane/identity/key-set.ts'
import type { GuardedFetch } from '../../dataplane/net/guarded-fetch.ts'
import { error, type Finding, ok, shown, warning } from './finding.ts'
import { type Metadata, objectIn, unreachable } from './metadata.ts'
import type { Subject } from './subject.ts'

const SMALLEST_RSA_BITS = 2048
const MOST_NAMED = 10

export async function checkKeys(
  subject: Subject,
  metadata: Metadata | undefined,
  fetch: GuardedFetch,
): Promise<readonly Finding[]> {
  const uri = subject.jwksUrl ?? metadata?.['jwks_uri']
  if (uri === undefined && metadata === undefined) return []
  const url = typeof uri === 'string' ? URL.parse(uri) : null
  if (url === null)
    return [error('keys', `jwks_uri is ${shown(uri)}`, 'use a provider that publishes its keys, or set jwksUrl')]
  if (url.protocol !== 'https:' && !isLoopback(url) && !subject.insecureAllowHTTP)
    return [error('keys', `the keys are at ${url.protocol}//${url.host}, which is not https`, 'serve them over https')]
  const answer = await fetch(url.href).catch((failure: unknown) => failure as Error)
  if (answer instanceof Error) return [unreachable(url.href, answer, subject, 'keys')]
  if (answer.status !== 200)
    return [error('keys', `${url.href} answers ${answer.status}`, 'check jwksUrl; redirects are never followed')]
  return keyFindings(url.href, objectIn(answer.text))
}

export function keyFindings(url: string, set: Metadata | undefined): readonly Finding[] {
  return [...usableFindings(url, set, fieldsIn(set)), ...unsafeFindings(set)]
}

function fieldsIn(set: Metadata | undefined): readonly Metadata[] {
  const keys = Array.isArray(set?.['keys']) ? (set['keys'] as readonly unknown[]) : []
  return keys.filter((key): key is Metadata => typeof key === 'object' && key !== null)
}

const isForSignatures = ({ use, kty }: Metadata) => (use === undefined || use === 'sig') && kty !== 'oct'

function usableFindings(url: string, set: unknown, keys: readonly Metadata[]): readonly Finding[] {
  try {
    if (keySetOf(set) === undefined) return [error('keys', `${url} has no keys`, 'let the provider make a signing key')]
  } catch (failure) {
    return [error('keys', `${url}: ${(failure as Error).message}`, 'publish RSA, EC or OKP keys for signatures')]
  }
  const signing = keys.filter(isForSignatures)
  const named = signing.slice(0, MOST_NAMED).map(({ kid, kty, alg }) => `${shown(kid)} (${shown(alg ?? kty)})`)
  const findings = [ok('keys', `${url} has ${signing.length} for signatures: ${named.join(', ')}`)]
  if (signing.length > 1 && signing.some(({ kid }) => typeof kid !== 'string'))
    findings.push(
      warning('keys', 'there are several keys, and not all have a kid', 'give each a kid, so that rotation is noticed'),
    )
  return findings
}

/** Checks that a set holds no key that is known to everybody, or weak. */
export function unsafeFindings(set: Metadata | undefined): readonly Finding[] {
  const keys = fieldsIn(set)
  const findings: Finding[] = []
  if (keys.some(({ kty }) => kty === 'oct'))
    findings.push(
      error('keys', 'a symmetric key is published: whoever reads it can forge tokens', 'withdraw it at the provider'),
    )
  if (keys.some((key) => 'd' in key))
    findings.push(error('keys', 'a private key is published', 'withdraw it at the provider at once'))
  if (keys.filter(isForSignatures).some(isWeak))
    findings.push(error('keys', `an RSA key has less than ${SMALLEST_RSA_BITS} bits`, 'make a larger one'))
  return findings
}

function isWeak(key: Metadata): boolean {
  try {
    const { asymmetricKeyDetails: details } = createPublicKey({ key, format: 'jwk' } as JsonWebKeyInput)
    return details?.modulusLength !== undefined && details.modulusLength < SMALLEST_RSA_BITS
  } catch {
    return false
  }
}

export function algorithmFindings(metadata: Metadata): readonly Finding[] {
  const listed = metadata['id_token_signing_alg_values_supported']
  if (!Array.isArray(listed)) return []
  const usable = listed.filter((name) => ALGORITHMS.includes(name as string))
  if (usable.length > 0) return [ok('algorithms', `signs with ${usable.join(', ')}`)]
  const fix = `have it sign with one of ${ALGORITHMS.join(', ')}`
  return [error('algorithms', `it signs with ${shown(listed)} alone, which is not accepted`, fix)]
}
