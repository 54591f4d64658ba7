import { createPublicKey, type JsonWebKeyInput } from 'node:crypto'
import { isKeyAddress, keysIn, LARGEST_KEY_SET } from '../../dataplane/authserver/clients/client-keys.ts'
import { issuerFindings } from '../../dataplane/config/check/issuer.ts'
import { isLoopback } from '../../dataplane/config/check/url.ts'
import { keySetOf } from '../../dataplane/identity/issuer-keys.ts'
import { ALGORITHMS } from '../../dataplane/identity/jwt.ts'
import { createGuardedFetch, type GuardedFetch } from '../../dataplane/net/guarded-fetch.ts'
import { error, type Finding, formatValue, note, ok, warning } from './finding.ts'
import { type Metadata, parseObject, readMetadata, reportUnreachable } from './metadata.ts'
import type { Endpoints, Subject } from './subjects.ts'

export interface Diagnosis extends Pick<Subject, 'where' | 'use' | 'issuer'> {
  readonly findings: readonly Finding[]
  readonly register: Pick<Subject, 'redirectUri' | 'scopes' | 'audiences'>
}

interface Options {
  readonly caBundleFile?: string | undefined
  readonly allowPrivateIP?: boolean | undefined
}

/** The API server has those keys, and answers its own workloads. */
const KEYS_OF_CLUSTER = note('keys', 'are those of the cluster’s API server, which this command does not ask')

/** Reads the metadata of a provider. An issuer whose keys have an address of their own needs none. */
const fetchMetadata = async (subject: Subject, fetch: GuardedFetch) =>
  subject.use === 'assertions' && subject.jwksUrl !== undefined
    ? { metadata: undefined, findings: [] }
    : readMetadata(subject, fetch)

/** Checks one provider as a gateway would use it: by the same guarded requests, without any secret. */
export async function checkProvider(subject: Subject, options: Options): Promise<Diagnosis> {
  const { where, use, issuer, scopes, audiences, redirectUri } = subject
  const register = { redirectUri, scopes, audiences }
  const diagnosis = (findings: readonly Finding[]): Diagnosis => ({ where, use, issuer, findings, register })
  if (subject.isOfCluster) return diagnosis([KEYS_OF_CLUSTER, ...checkAudiences(subject)])
  if (subject.use === 'keys') return diagnosis(await checkClientKeys(subject, options))
  if (subject.endpoints !== undefined) return diagnosis(await checkEndpoints(subject.endpoints, subject, options))
  const allowPrivateIP = subject.allowPrivateIP || options.allowPrivateIP
  const { insecureAllowHTTP = false } = subject
  const wrong = issuerFindings({ issuer, insecureAllowHTTP, allowPrivateIP, allowedBy: subject.allowedBy }, '')
  if (wrong.length > 0)
    return diagnosis(wrong.map(({ message }) => error('issuer', `${issuer} ${message}`, 'correct the issuer')))
  const fetch = createGuardedFetch({
    caBundleFile: options.caBundleFile,
    allowPrivateIP,
    allowLoopback: isLoopback(new URL(issuer)),
  })
  try {
    const { metadata, findings } = await fetchMetadata(subject, fetch)
    const keys = await checkKeys(subject, metadata, fetch)
    const ofMetadata =
      metadata === undefined
        ? []
        : [
            ...checkAlgorithms(metadata),
            ...checkIntrospection(metadata, subject),
            ...(use === 'assertions' ? [] : checkLogin(metadata, subject)),
            ...checkScopes(metadata, subject),
          ]
    return diagnosis([...findings, ...keys, ...ofMetadata, ...checkAudiences(subject)])
  } finally {
    await fetch.close()
  }
}

/** Checks the keys of a client or a trust domain, as the authorization server fetches them: from public addresses. */
async function checkClientKeys(subject: Subject, { allowPrivateIP }: Options): Promise<readonly Finding[]> {
  const { issuer: url, server = '', keyUse } = subject
  const isLocal = URL.canParse(server) && isLoopback(new URL(server))
  if (!isKeyAddress(url, isLocal))
    return [error('keys', `${url} is not https`, 'serve the keys over https, at a public address')]
  const fetch = createGuardedFetch({ maxBytes: LARGEST_KEY_SET, allowPrivateIP, allowLoopback: isLocal })
  try {
    const { status, text } = await fetch(url)
    if (status !== 200)
      return [error('keys', `${url} answers ${status}`, 'check the address; redirects are not followed')]
    const set = parseObject(text)
    const keys = keysIn(set, keyUse)
    if (keys !== undefined) return checkKeySet(url, keyUse === undefined ? set : { keys })
    const what = keyUse === undefined ? 'no set of 1 to 20 public keys' : `no keys with the use ${keyUse}`
    const unusable = error('keys', `${url} has ${what}`, 'publish RSA, EC or OKP keys there, as a JWK set')
    return [unusable, ...checkUnsafeKeys(set)]
  } catch (failure) {
    return [reportUnreachable(url, failure as Error, subject, 'keys')]
  } finally {
    await fetch.close()
  }
}

const readTexts = (metadata: Metadata, name: string): readonly unknown[] | undefined => {
  const value = metadata[name]
  return Array.isArray(value) ? value : undefined
}

/** Checks that a needed endpoint exists and uses https. */
function checkEndpoint(metadata: Metadata, name: string, { insecureAllowHTTP }: Subject, needed: boolean): Finding[] {
  const value = metadata[name]
  const url = typeof value === 'string' ? URL.parse(value) : null
  if (url === null) {
    const message = `${name} is ${formatValue(value)}`
    const fix = 'use an issuer that lets people log in by the authorization code flow'
    return [needed ? error('login', message, fix) : warning('login', message, fix)]
  }
  if (url.protocol === 'https:' || isLoopback(url) || insecureAllowHTTP) return []
  return [error('login', `${name} is at ${url.protocol}//${url.host}, which is not https`, 'serve it over https')]
}

/** Checks that users can log in: by the code flow with PKCE (OAuth 2.1), which all MCP clients use. */
function checkLogin(metadata: Metadata, subject: Subject): readonly Finding[] {
  const needed = subject.use === 'login'
  const findings = ['authorization_endpoint', 'token_endpoint'].flatMap((name) =>
    checkEndpoint(metadata, name, subject, needed),
  )
  const responses = readTexts(metadata, 'response_types_supported')
  if (responses !== undefined && !responses.includes('code'))
    findings.push(
      error('login', `response_types_supported is ${formatValue(responses)}`, 'allow the authorization code flow'),
    )
  const challenges = readTexts(metadata, 'code_challenge_methods_supported')
  if (challenges?.includes('S256')) findings.push(ok('login', 'the code flow with PKCE (S256)'))
  else
    findings.push(
      warning(
        'login',
        `code_challenge_methods_supported is ${formatValue(challenges)}`,
        needed
          ? 'PKCE is sent anyway; most providers accept it'
          : 'MCP clients refuse an issuer that does not list S256: log in through authServerConfig instead',
      ),
    )
  if (!needed) findings.push(checkRegistration(metadata))
  return findings
}

function checkRegistration(metadata: Metadata): Finding {
  if (metadata['client_id_metadata_document_supported'] === true)
    return ok('clients', 'clients need no registration (client id metadata documents)')
  if (typeof metadata['registration_endpoint'] === 'string')
    return ok('clients', 'clients register themselves (registration_endpoint)')
  const fix = 'register each client by hand, or let authServerConfig register them'
  return warning('clients', 'clients can’t register themselves there', fix)
}

function checkScopes(metadata: Metadata, { scopes, use }: Subject): readonly Finding[] {
  if (scopes.length === 0) return []
  const listed = readTexts(metadata, 'scopes_supported')
  if (listed === undefined) return [note('scopes', `it does not list its scopes; asked for: ${scopes.join(' ')}`)]
  const missing = scopes.filter((scope) => !listed.includes(scope))
  if (missing.length === 0) return [ok('scopes', `it has ${scopes.join(' ')}`)]
  const what = use === 'login' ? 'log in' : 'get in'
  const fix = `register them there; if it only does not list them, check that a user can ${what} with them`
  return [warning('scopes', `not among those that it lists: ${missing.join(' ')}`, fix)]
}

/** Checks the introspection of opaque tokens: an endpoint exists, and credentials may go there. */
function checkIntrospection(metadata: Metadata, subject: Subject): readonly Finding[] {
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
    return [error('opaque tokens', `introspection_endpoint is ${formatValue(value)}`, 'set inline.introspectionUrl')]
  if (url.origin === new URL(subject.issuer).origin) return [ok('opaque tokens', `are introspected at ${url.href}`)]
  const fix = `set inline.introspectionUrl: ${url.href}, if that is right`
  return [error('opaque tokens', `the introspection endpoint is at another origin, ${url.origin}`, fix)]
}

const SMALLEST_RSA_BITS = 2048
const MOST_NAMED = 10

async function checkKeys(
  subject: Subject,
  metadata: Metadata | undefined,
  fetch: GuardedFetch,
): Promise<readonly Finding[]> {
  const uri = subject.jwksUrl ?? metadata?.['jwks_uri']
  if (uri === undefined && metadata === undefined) return []
  const url = typeof uri === 'string' ? URL.parse(uri) : null
  if (url === null)
    return [error('keys', `jwks_uri is ${formatValue(uri)}`, 'use a provider that publishes its keys, or set jwksUrl')]
  if (url.protocol !== 'https:' && !isLoopback(url) && !subject.insecureAllowHTTP)
    return [error('keys', `the keys are at ${url.protocol}//${url.host}, which is not https`, 'serve them over https')]
  const answer = await fetch(url.href).catch((failure: unknown) => failure as Error)
  if (answer instanceof Error) return [reportUnreachable(url.href, answer, subject, 'keys')]
  if (answer.status !== 200)
    return [error('keys', `${url.href} answers ${answer.status}`, 'check jwksUrl; redirects are never followed')]
  return checkKeySet(url.href, parseObject(answer.text))
}

function checkKeySet(url: string, set: Metadata | undefined): readonly Finding[] {
  return [...checkUsableKeys(url, set, readKeys(set)), ...checkUnsafeKeys(set)]
}

function readKeys(set: Metadata | undefined): readonly Metadata[] {
  const keys = Array.isArray(set?.['keys']) ? (set['keys'] as readonly unknown[]) : []
  return keys.filter((key): key is Metadata => typeof key === 'object' && key !== null)
}

const isForSignatures = ({ use, kty }: Metadata) => (use === undefined || use === 'sig') && kty !== 'oct'

function checkUsableKeys(url: string, set: unknown, keys: readonly Metadata[]): readonly Finding[] {
  try {
    if (keySetOf(set) === undefined) return [error('keys', `${url} has no keys`, 'let the provider make a signing key')]
  } catch (failure) {
    return [error('keys', `${url}: ${(failure as Error).message}`, 'publish RSA, EC or OKP keys for signatures')]
  }
  const signing = keys.filter(isForSignatures)
  const named = signing
    .slice(0, MOST_NAMED)
    .map(({ kid, kty, alg }) => `${formatValue(kid)} (${formatValue(alg ?? kty)})`)
  const findings = [ok('keys', `${url} has ${signing.length} for signatures: ${named.join(', ')}`)]
  if (signing.length > 1 && signing.some(({ kid }) => typeof kid !== 'string'))
    findings.push(
      warning('keys', 'there are several keys, and not all have a kid', 'give each a kid, so that rotation is noticed'),
    )
  return findings
}

/** Checks that a set holds no key that is known to everybody, or weak. */
function checkUnsafeKeys(set: Metadata | undefined): readonly Finding[] {
  const keys = readKeys(set)
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

function checkAlgorithms(metadata: Metadata): readonly Finding[] {
  const listed = metadata['id_token_signing_alg_values_supported']
  if (!Array.isArray(listed)) return []
  const usable = listed.filter((name) => ALGORITHMS.includes(name as string))
  if (usable.length > 0) return [ok('algorithms', `signs with ${usable.join(', ')}`)]
  const fix = `have it sign with one of ${ALGORITHMS.join(', ')}`
  return [error('algorithms', `it signs with ${formatValue(listed)} alone, which is not accepted`, fix)]
}

type Answer = Awaited<ReturnType<GuardedFetch>>

interface Question {
  readonly check: string
  readonly url: string | undefined
  readonly body?: string
  judge(answer: Answer, url: string): Finding
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const WRONG_PLACE = 'take the address from the provider’s documentation; redirects are never followed'

/** Checks that the endpoints of a provider exist and answer as such. No request holds a secret. */
async function checkEndpoints(endpoints: Endpoints, subject: Subject, options: Options): Promise<Finding[]> {
  const { authorization, token, userInfo, identifiesByToken } = endpoints
  const questions: Question[] = [
    { check: 'login page', url: authorization, judge: judgeLoginPage },
    { check: 'token', url: token, body: 'grant_type=authorization_code', judge: judgeToken },
  ]
  if (userInfo !== undefined) {
    const body = userInfo.method === 'POST' && { body: '' }
    questions.push({ check: 'user info', url: userInfo.url, ...body, judge: judgeUserInfo })
  }
  const findings = await Promise.all(questions.map((question) => ask(question, subject, options)))
  if (userInfo !== undefined || identifiesByToken) return findings
  const fix = 'set oauth2Config.userInfo or identityFromToken; otherwise users are asked for consent at each login'
  return [...findings, warning('user', 'no provider says who users are, so each login counts as a new user', fix)]
}

async function ask({ check, url: text, body, judge }: Question, subject: Subject, options: Options): Promise<Finding> {
  const url = text === undefined ? null : URL.parse(text)
  if (url === null || text === undefined)
    return error(check, `its address is ${formatValue(text)}`, 'write an https URL')
  if (url.protocol !== 'https:' && !isLoopback(url) && !subject.insecureAllowHTTP)
    return error(check, `it is at ${url.protocol}//${url.host}, which is not https`, 'serve it over https')
  const fetch = createGuardedFetch({
    caBundleFile: options.caBundleFile,
    allowPrivateIP: subject.allowPrivateIP || options.allowPrivateIP,
    allowLoopback: isLoopback(url),
  })
  try {
    return judge(await fetch(text, body === undefined ? {} : FORM, body), text)
  } catch (failure) {
    return reportUnreachable(text, failure as Error, subject, check)
  } finally {
    await fetch.close()
  }
}

const isMissing = ({ status }: Answer) => status === 404 || status === 405 || status === 410
const describeAnswer = ({ status }: Answer, url: string) => `${url} answers ${status}`

const judgeLoginPage = (answer: Answer, url: string): Finding =>
  isMissing(answer) || answer.status >= 500
    ? warning('login page', describeAnswer(answer, url), 'open it in a browser: users are sent there')
    : ok('login page', `${url} answers`)

/** Judges the token endpoint: it must refuse a request without a code, by an OAuth error or any other text. */
function judgeToken(answer: Answer, url: string): Finding {
  const { status, text } = answer
  if (isMissing(answer) || (status >= 300 && status < 400))
    return error('token', describeAnswer(answer, url), WRONG_PLACE)
  if (status >= 500) return warning('token', describeAnswer(answer, url), 'check the provider’s health')
  const isOAuth = typeof parseObject(text)?.['error'] === 'string'
  return ok('token', `${url} ${isOAuth ? 'speaks OAuth 2' : 'answers'}`)
}

/** Judges the user info endpoint: it must refuse a request without a token, which identifies no user. */
function judgeUserInfo(answer: Answer, url: string): Finding {
  const { status } = answer
  if (isMissing(answer) || (status >= 300 && status < 400))
    return error('user info', describeAnswer(answer, url), WRONG_PLACE)
  if (status >= 500) return warning('user info', describeAnswer(answer, url), 'check the provider’s health')
  if (status >= 400) return ok('user info', `${url} wants a token`)
  const fix = 'check that it answers with the user of the token'
  return warning('user info', `${url} answers ${status} without a token`, fix)
}

/** The settings with which a provider's tokens carry an audience, by the host of its issuer. */
const HINTS: readonly (readonly [host: RegExp, hint: string])[] = [
  [
    /^accounts\.google\.com$/,
    'Google’s access tokens are opaque and can’t be introspected: callers send ID tokens, whose audience is their client id',
  ],
  [
    /^login\.microsoftonline\.com$|\.ciamlogin\.com$/,
    'Entra ID: the audience of v2.0 tokens is the application id of the API (set accessTokenAcceptedVersion to 2)',
  ],
  [/^sts\.windows\.net$/, 'Entra ID, v1.0 tokens: the audience is the application id URI (api://…) of the API'],
  [
    /\.okta(preview)?\.com$|\.oktapreview\.com$/,
    'Okta: use a custom authorization server (…/oauth2/NAME) and its audience; tokens of the org server are for Okta alone',
  ],
  [/\.auth0\.com$/, 'Auth0: make an API with this identifier; without an `audience` parameter tokens are opaque'],
]
const KEYCLOAK = /\/realms\/[^/]+$/

function findHint(issuer: string): string | undefined {
  const url = URL.parse(issuer)
  if (url === null) return undefined
  if (KEYCLOAK.test(url.pathname))
    return 'Keycloak: add a client scope with an audience mapper for it, or the tokens are for `account`'
  return HINTS.find(([host]) => host.test(url.hostname))?.[1]
}

/** Reports the audience that tokens must carry, and the settings with which this provider writes it. */
function checkAudiences({ use, audiences, issuer, where }: Subject): readonly Finding[] {
  if (use === 'login') return []
  const hint = findHint(issuer)
  const hints = hint === undefined ? [] : [note('audience', hint)]
  if (audiences.length > 0)
    return [
      ok('audience', `${use === 'assertions' ? 'assertions' : 'tokens'} must be for ${audiences.join(' or ')}`),
      ...hints,
    ]
  if (where === ISSUER_OPTION) return [note('audience', 'none is named (--audience)'), ...hints]
  const fix = 'set incomingAuth.audience where a VirtualMCPServer refers to it'
  return [error('audience', 'no workload in these files names an audience', fix), ...hints]
}

export const ISSUER_OPTION = '--issuer'
