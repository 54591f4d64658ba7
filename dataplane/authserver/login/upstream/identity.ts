import { isObject } from '../../../../crds/settings/json.ts'
import type { UserInfoConfig } from '../../../config/auth-server.ts'
import { isEmailVerified, parseDocument } from '../../../identity/index.ts'
import { LONGEST_NAME, providerSubject } from '../../provider/subject.ts'
import { statusFault, toFault } from './provider-fault.ts'
import { objectIn, ProviderResponse, providerFetch, type Reach, UnusableAnswer } from './provider-fetch.ts'

/** A user as a provider identifies them. */
export interface Identity {
  /** The user's name at the provider. */
  readonly subject: string
  readonly name?: string
  /** An e-mail address that the provider has verified. */
  readonly email?: string
}

/** The paths of an identity in an answer. Of each list, the first path that exists counts. */
interface IdentityPaths {
  readonly subject: readonly string[]
  readonly name: readonly string[]
  readonly email: readonly string[]
}

/**
 * Returns the value at a path: the member of exactly this name or, with dots, a nested one. Members that every object
 * inherits (`__proto__`, `constructor`) count only if the document itself has them.
 * @param open parses a text as a document if the path leads into it
 */
export function valueAt(document: unknown, path: string, open: (text: string) => unknown = closed): unknown {
  if (isObject(document) && Object.hasOwn(document, path)) return document[path]
  let value = document
  for (const step of path.split('.')) {
    if (typeof value === 'string') value = open(value)
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Readonly<Record<string, unknown>>)[step]
  }
  return value
}

const closed = () => undefined

/**
 * Returns the payload of a JWT, or undefined for any other text. The signature is not checked, because the provider
 * itself sent the JWT over TLS (OpenID Connect Core 1.0 section 3.1.3.7 allows this for ID tokens).
 */
export function jwtPayload(text: string): unknown {
  const [, payload, signature, more] = text.split('.', 4)
  if (payload === undefined || signature === undefined || more !== undefined) return undefined
  return parseDocument(Buffer.from(payload, 'base64url').toString('utf8'))
}

/**
 * Reads the identity of the user. Throws an UnusableAnswer if no path names the user, or if the first one that exists
 * holds no usable name: a later path could name a different user.
 */
export const identityIn = (document: unknown, paths: IdentityPaths, open?: (text: string) => unknown): Identity => ({
  subject: subjectFrom(firstAt(document, paths.subject, open)),
  ...shownIn(document, paths, open),
})

/** Returns the name and e-mail address that are shown for the user. */
function shownIn(
  document: unknown,
  paths: Pick<IdentityPaths, 'name' | 'email'>,
  open?: (text: string) => unknown,
): Omit<Identity, 'subject'> {
  const name = shownClaim(firstAt(document, paths.name, open))
  const email = emailIn(document, paths.email, open)
  return { ...(name !== undefined && { name }), ...(email !== undefined && { email }) }
}

/**
 * Returns the e-mail address if the provider vouches for it: `email_verified` beside it is true. That claim is about
 * `email` (OpenID Connect Core 1.0 section 5.1), so an address under another name must equal `email` if both exist.
 */
function emailIn(document: unknown, paths: readonly string[], open?: (text: string) => unknown): string | undefined {
  const found = firstFound(document, paths, open)
  const email = shownClaim(found?.value)
  if (found === undefined || email === undefined) return undefined
  const parent = Object.hasOwn(document as object, found.path)
    ? ''
    : found.path.slice(0, found.path.lastIndexOf('.') + 1)
  const beside = (name: string) => valueAt(document, parent + name, open)
  const isSame = [undefined, email].includes(beside('email') as string | undefined)
  return isSame && isEmailVerified({ email_verified: beside('email_verified') }) ? email : undefined
}

/** Returns the value at the first path that exists. */
const firstAt = (document: unknown, paths: readonly string[], open?: (text: string) => unknown): unknown =>
  firstFound(document, paths, open)?.value

function firstFound(document: unknown, paths: readonly string[], open?: (text: string) => unknown) {
  for (const path of paths) {
    const value = valueAt(document, path, open)
    if (value !== undefined && value !== null && value !== '') return { path, value }
  }
  return undefined
}

/** Returns the user's name: a text, or an exact number. Throws an UnusableAnswer for any other value. */
export function subjectFrom(value: unknown): string {
  const subject = providerSubject(value)
  if (subject !== undefined) return subject
  throw new UnusableAnswer('the provider’s answer holds no usable subject')
}

/** Returns a claim that can be shown to people, or undefined. */
export const shownClaim = (claim: unknown): string | undefined =>
  typeof claim === 'string' && claim !== '' && claim.length <= LONGEST_NAME ? claim : undefined

const orUsual = (fields: readonly string[] | undefined, usual: string): readonly string[] =>
  fields === undefined || fields.length === 0 ? [usual] : fields

/** Creates the functions that ask a provider for the user of an access token. */
export function createUserInfo(config: UserInfoConfig, reach: Reach, directory: string) {
  const { endpointUrl, httpMethod = 'GET', additionalHeaders = {}, fieldMapping = {} } = config
  const fetch = providerFetch(endpointUrl, reach, directory)
  const paths = {
    subject: orUsual(fieldMapping.subjectFields, 'sub'),
    name: orUsual(fieldMapping.nameFields, 'name'),
    email: orUsual(fieldMapping.emailFields, 'email'),
  }
  const headers = {
    // GitHub refuses requests without a user agent.
    'user-agent': 'portico',
    ...Object.fromEntries(Object.entries(additionalHeaders).map(([name, value]) => [name.toLowerCase(), value])),
  }
  async function get(accessToken: string): Promise<Readonly<Record<string, unknown>>> {
    const own = { ...headers, authorization: `Bearer ${accessToken}` }
    const { status, text } = await fetch(endpointUrl, own, httpMethod.toUpperCase() === 'POST' ? '' : undefined)
    if (status < 200 || status > 299)
      throw statusFault('user_info', new ProviderResponse(text, status, {}, { secrets: [accessToken] }))
    return objectIn(text, 'the userinfo endpoint of the provider answered with something other than a JSON object')
  }

  /** Reads an answer. An error while reading is a fault of this endpoint. */
  async function reading<T>(accessToken: string, read: (document: Readonly<Record<string, unknown>>) => T): Promise<T> {
    try {
      return read(await get(accessToken))
    } catch (error) {
      throw toFault(error, 'user_info')
    }
  }

  return {
    /** Returns the user's identity. Rejects with an Error for the log that holds nothing of the request or answer. */
    ask: (accessToken: string) => reading(accessToken, (document) => identityIn(document, paths)),
    /** Returns the claims to show for a known user. The answer may omit the user's name but not name a different user. */
    confirm: (accessToken: string, names: readonly unknown[]) =>
      reading(accessToken, (document) => {
        const named = firstAt(document, paths.subject)
        if (named !== undefined && !names.includes(subjectFrom(named)))
          throw new UnusableAnswer('the userinfo endpoint of the provider named another user')
        return shownIn(document, paths)
      }),
    close: () => fetch.close(),
  }
}
