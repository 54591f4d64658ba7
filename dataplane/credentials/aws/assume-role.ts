import { isObject } from '../../../crds/shared/json.ts'
import { isLoopback } from '../../config/check/url.ts'
import { createGuardedFetch } from '../../net/guarded-fetch.ts'
import { CredentialError } from '../credential.ts'
import type { AssumedRole } from './role.ts'

/** Temporary credentials of AWS. */
export interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken: string
  /** In milliseconds since 1970. */
  readonly expiresAt: number
}

/** An answer is four values and a few words about them. */
const MAX_BYTES = 64 * 1024
const TIMEOUT_MS = 10_000
const CONNECTIONS = 32
const API_VERSION = '2011-06-15'
/** Error codes of AssumeRoleWithWebIdentity: words that are ours to repeat in a log. */
const ERRORS: ReadonlySet<unknown> = new Set([
  ...['AccessDenied', 'ExpiredTokenException', 'IDPCommunicationError', 'IDPRejectedClaim', 'InvalidIdentityToken'],
  ...['MalformedPolicyDocument', 'PackedPolicyTooLarge', 'RegionDisabledException', 'ValidationError'],
])

/** Nothing in an answer is refined: no entities, no attributes, no numbers. */
const AS_IT_IS = {
  ignoreAttributes: true,
  ignoreDeclaration: true,
  ignorePiTags: true,
  parseTagValue: false,
  processEntities: false,
}

/** Asks the Security Token Service of AWS for credentials of a role, for a token of the user (AssumeRoleWithWebIdentity). */
export interface AssumeRole {
  /** Rejects with a CredentialError that repeats nothing of what was sent or answered. */
  (role: AssumedRole, webIdentityToken: string): Promise<AwsCredentials>
  close(): Promise<void>
}

export function createAssumeRole(stsUrl: string, durationSeconds: number): AssumeRole {
  const fetch = createGuardedFetch({
    allowLoopback: isLoopback(new URL(stsUrl)),
    maxBytes: MAX_BYTES,
    timeoutMs: TIMEOUT_MS,
    connections: CONNECTIONS,
  })

  async function assumeRole({ roleArn, sessionName }: AssumedRole, webIdentityToken: string): Promise<AwsCredentials> {
    const body = new URLSearchParams({
      Action: 'AssumeRoleWithWebIdentity',
      Version: API_VERSION,
      RoleArn: roleArn,
      RoleSessionName: sessionName,
      DurationSeconds: String(durationSeconds),
      WebIdentityToken: webIdentityToken,
    })
    const headers = { accept: 'text/xml', 'content-type': 'application/x-www-form-urlencoded' }
    const { status, text } = await fetch(stsUrl, headers, body.toString()).catch((cause: NodeJS.ErrnoException) => {
      throw unusable(`can’t be asked: ${cause.code ?? cause.name}: ${cause.message}`, cause)
    })
    const answer = await parse(text)
    if (status === 200) return credentialsIn(answer)
    if (status < 400 || status >= 500 || status === 429) throw unusable(`answered HTTP ${status}`)
    const code = textAt(answer, ['ErrorResponse', 'Error', 'Code'])
    throw new CredentialError(
      `AWS STS refused the request with HTTP ${status}${ERRORS.has(code) ? ` (${code})` : ''}`,
      {
        text: 'AWS refused the role for your token',
        isPassing: false,
      },
    )
  }
  return Object.assign(assumeRole, { close: () => fetch.close() })
}

async function parse(text: string): Promise<unknown> {
  // Loaded by gateways that need it.
  const { XMLParser } = await import('fast-xml-parser')
  try {
    return new XMLParser(AS_IT_IS).parse(text)
  } catch {
    return undefined
  }
}

const RESULT = ['AssumeRoleWithWebIdentityResponse', 'AssumeRoleWithWebIdentityResult', 'Credentials']

function credentialsIn(answer: unknown): AwsCredentials {
  const [accessKeyId, secretAccessKey, sessionToken, expiration] = [
    'AccessKeyId',
    'SecretAccessKey',
    'SessionToken',
    'Expiration',
  ].map((name) => textAt(answer, [...RESULT, name]))
  const expiresAt = Date.parse(expiration ?? '')
  // What can stand in a header, which two of them are sent in.
  const isWhole = [accessKeyId, secretAccessKey, sessionToken].every((text) => /^[\x21-\x7e]+$/.test(text ?? ''))
  if (!isWhole || !/^\w+$/.test(accessKeyId ?? '') || Number.isNaN(expiresAt)) throw unusable('gave no credentials')
  return { accessKeyId, secretAccessKey, sessionToken, expiresAt } as AwsCredentials
}

function textAt(value: unknown, path: readonly string[]): string | undefined {
  const found = path.reduce(
    (inner, name) => (isObject(inner) && Object.hasOwn(inner, name) ? inner[name] : undefined),
    value,
  )
  return typeof found === 'string' ? found : undefined
}

const unusable = (what: string, cause?: unknown) =>
  new CredentialError(`AWS STS ${what}`, { text: 'AWS STS does not answer as it should', isPassing: true, cause })
