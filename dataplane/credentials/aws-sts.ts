import { decodeJwt } from 'jose'
import { awsDefaults, ROLE_CLAIM } from '../../crds/settings/gateway/defaults.ts'
import { isObject } from '../../crds/settings/json.ts'
import { type ClaimMatcher, compileClaimMatcher } from '../config/check/claim-matcher.ts'
import type { CredentialBlock } from '../config/credential.ts'
import { CredentialError, type SignRequest, type Strategy, type Subject } from './credential.ts'
import { tokenFetch } from './token-endpoint.ts'
import { actorVariant, dependingOn, holderOf, readAuthority, type StrategyParts } from './upstream-tokens.ts'

type AwsStsConfig = CredentialBlock<'awsSts'>

const regional = (region: string) => `https://sts.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}/`

/**
 * Obtains temporary credentials of an AWS role for each caller, which sign each request. The token for AWS is the
 * caller's own or, with `subjectProviderName`, that provider's ID token. Its claims select the role.
 */
export function awsSts(config: AwsStsConfig, { upstreamTokens }: StrategyParts): Strategy {
  const { region, service, subjectProviderName, sessionDuration } = { ...awsDefaults, ...config }
  const chooseRole = roleChooser(config)
  const assumeRole = createAssumeRole(config.stsUrl ?? regional(region), sessionDuration)

  async function findIdentity(subject: Subject) {
    if (subjectProviderName === undefined) return subject
    const idToken = await upstreamTokens.idToken(holderOf(subject), subjectProviderName)
    // The token was verified at login.
    return { token: idToken, claims: decodeJwt(idToken) as Readonly<Record<string, unknown>> }
  }

  return {
    key: JSON.stringify(['awsSts', config]),
    ...dependingOn(upstreamTokens, subjectProviderName, 'idToken'),
    signs: true,
    variant({ claims }) {
      if (subjectProviderName !== undefined) return actorVariant({ claims })
      try {
        return JSON.stringify([chooseRole(claims), readAuthority(claims)])
      } catch {
        return 'none'
      }
    },
    async obtain(subject) {
      const { token, claims } = await findIdentity(subject)
      const credentials = await assumeRole(chooseRole(claims), token)
      return { headers: [], expiresAt: credentials.expiresAt, sign: await awsSigner(credentials, { region, service }) }
    },
    close: () => assumeRole.close(),
  }
}

interface AssumedRole {
  readonly roleArn: string
  readonly sessionName: string
}

interface Mapping {
  readonly roleArn: string
  readonly matches: ClaimMatcher
}

const LONGEST_NAME = 64
const SHORTEST_NAME = 2

/** Returns the function that selects the role for verified claims. It throws a CredentialError if no role fits. */
function roleChooser(config: AwsStsConfig): (claims: Readonly<Record<string, unknown>>) => AssumedRole {
  const { roleClaim = ROLE_CLAIM, sessionNameClaim = awsDefaults.sessionNameClaim, fallbackRoleArn } = config
  const mappings = orderedMappings(config.roleMappings ?? [], roleClaim)
  return function chooseRole(claims) {
    const roleArn = mappings.find(({ matches }) => matches(claims))?.roleArn ?? fallbackRoleArn
    if (roleArn === undefined)
      throw refused(
        'no entry of roleMappings fits the caller, and there is no fallbackRoleArn',
        'no AWS role is assigned to you',
      )
    return { roleArn, sessionName: sessionName(own(claims, sessionNameClaim)) }
  }
}

/** Sorts the mappings: the lowest priority number first, those without one last, equal ones in their order. */
const orderedMappings = (mappings: NonNullable<AwsStsConfig['roleMappings']>, roleClaim: string): readonly Mapping[] =>
  mappings
    .toSorted((a, b) => (a.priority ?? Number.MAX_SAFE_INTEGER) - (b.priority ?? Number.MAX_SAFE_INTEGER))
    .map(({ roleArn, claim, matcher }) => ({
      roleArn,
      matches: matcher === undefined ? (claims) => holds(own(claims, roleClaim), claim) : compileClaimMatcher(matcher),
    }))

const own = (claims: Readonly<Record<string, unknown>>, name: string) =>
  Object.hasOwn(claims, name) ? claims[name] : undefined

const holds = (claim: unknown, value: string | undefined): boolean =>
  value !== undefined && (claim === value || (Array.isArray(claim) && claim.includes(value)))

/** Returns a session name in AWS's characters (2 to 64 of `[\w+=,.@-]`). Others become `_`. */
function sessionName(claim: unknown): string {
  if (typeof claim !== 'string' || claim === '')
    throw refused(
      'the token lacks the claim of sessionNameClaim',
      'your token lacks the claim by which AWS names your session',
    )
  const name = claim.slice(0, LONGEST_NAME).replace(/[^\w+=,.@-]/g, '_')
  return name.padEnd(SHORTEST_NAME, '_')
}

const refused = (message: string, text: string) => new CredentialError(message, { text, isPassing: false })

interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken: string
  /** The expiry in milliseconds since 1970. */
  readonly expiresAt: number
}

const API_VERSION = '2011-06-15'
/** Error codes of AssumeRoleWithWebIdentity, which are safe to repeat in a log. */
const ERRORS: ReadonlySet<unknown> = new Set([
  ...['AccessDenied', 'ExpiredTokenException', 'IDPCommunicationError', 'IDPRejectedClaim', 'InvalidIdentityToken'],
  ...['MalformedPolicyDocument', 'PackedPolicyTooLarge', 'RegionDisabledException', 'ValidationError'],
])

const AS_IT_IS = {
  ignoreAttributes: true,
  ignoreDeclaration: true,
  ignorePiTags: true,
  parseTagValue: false,
  processEntities: false,
}

function createAssumeRole(stsUrl: string, durationSeconds: number) {
  const fetch = tokenFetch(stsUrl)

  /** Rejects with a CredentialError that repeats nothing from the request or the response. */
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
    const named = ERRORS.has(code) ? ` (${code})` : ''
    throw refused(`AWS STS refused the request with HTTP ${status}${named}`, 'AWS refused the role for your token')
  }
  return Object.assign(assumeRole, { close: () => fetch.close() })
}

async function parse(text: string): Promise<unknown> {
  // The module is loaded only by gateways that need it.
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
  // Two of the values are sent in headers, so all must be valid there.
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
  new CredentialError(`AWS STS ${what}`, { text: 'AWS STS does not answer as specified', isPassing: true, cause })

interface SigningScope {
  readonly region: string
  readonly service: string
}

/** The headers that the signature covers, besides the host and those that it adds. Proxies may change others. */
const CONTENT_TYPE = 'content-type'

/** Returns a signer for AWS Signature Version 4, which covers method, host, path, query, body and time. */
async function awsSigner(credentials: AwsCredentials, { region, service }: SigningScope): Promise<SignRequest> {
  // The module is loaded only by gateways that need it.
  const { default: aws4 } = await import('aws4')
  const { accessKeyId, secretAccessKey, sessionToken } = credentials
  return function signRequest({ method, host, path, headers, body }) {
    const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === CONTENT_TYPE)
    const signed = aws4.sign(
      {
        method,
        host,
        path,
        region,
        service,
        body: body ?? '',
        headers: { Host: host, ...(at < 0 ? {} : { [CONTENT_TYPE]: headers[at + 1] }) },
        // The connection writes this header itself.
        extraHeadersToIgnore: { 'content-length': true },
      } as Parameters<typeof aws4.sign>[0],
      { accessKeyId, secretAccessKey, sessionToken },
    )
    const { Authorization, 'X-Amz-Date': date } = signed.headers as Record<string, string>
    return ['authorization', Authorization ?? '', 'x-amz-date', date ?? '', 'x-amz-security-token', sessionToken]
  }
}
