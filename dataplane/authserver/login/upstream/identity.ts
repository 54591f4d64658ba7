import { isObject } from '../../../../crds/settings/json.ts'
import { isEmailVerified } from '../../../identity/index.ts'
import { UnusableAnswer } from './provider-fetch.ts'

/** Who a user is at a provider. */
export interface Identity {
  /** The user's name there. */
  readonly subject: string
  readonly name?: string
  /** One that the provider vouches for. */
  readonly email?: string
}

/** Where an answer may say it: of each list the first that is there counts. */
interface IdentityPaths {
  readonly subject: readonly string[]
  readonly name: readonly string[]
  readonly email: readonly string[]
}

/** A name that is longer is none. */
const LONGEST_NAME = 256

/**
 * What stands at a path: a member of this very name or, with dots, one inside the others. Members that every object has
 * by its nature (`__proto__`, `constructor`) are not there unless the document has them.
 *
 * @param open what to go on in where the way leads through a text
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
 * The payload of a JWT; undefined of any other text. Nobody checks its signature: what it stands in came from the provider
 * itself, over TLS (OpenID Connect Core 1.0 section 3.1.3.7 has the same of ID tokens).
 */
export function jwtPayload(text: string): unknown {
  const [, payload, signature, more] = text.split('.', 4)
  if (payload === undefined || signature === undefined || more !== undefined) return undefined
  try {
    return JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'))
  } catch {
    return undefined
  }
}

/**
 * Reads who the user is. Throws an UnusableAnswer where nothing names the user, or the first thing that does is no name:
 * a later one could be somebody else's.
 */
export const identityIn = (document: unknown, paths: IdentityPaths, open?: (text: string) => unknown): Identity => ({
  subject: subjectFrom(firstAt(document, paths.subject, open)),
  ...shownIn(document, paths, open),
})

/** What is shown of the user. */
export function shownIn(
  document: unknown,
  paths: Pick<IdentityPaths, 'name' | 'email'>,
  open?: (text: string) => unknown,
): Omit<Identity, 'subject'> {
  const name = shownClaim(firstAt(document, paths.name, open))
  const email = emailIn(document, paths.email, open)
  return { ...(name !== undefined && { name }), ...(email !== undefined && { email }) }
}

/**
 * The e-mail address, where the provider vouches for it: `email_verified` beside it is true. That speaks of `email` (OpenID
 * Connect Core 1.0 section 5.1), so an address under another name has to be the same one where both are there.
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

/** What stands at the first path at which there is anything. */
export const firstAt = (document: unknown, paths: readonly string[], open?: (text: string) => unknown): unknown =>
  firstFound(document, paths, open)?.value

function firstFound(document: unknown, paths: readonly string[], open?: (text: string) => unknown) {
  for (const path of paths) {
    const value = valueAt(document, path, open)
    if (value !== undefined && value !== null && value !== '') return { path, value }
  }
  return undefined
}

/** The name of a user: a text, or a number that is exact. Throws an UnusableAnswer for everything else. */
export function subjectFrom(value: unknown): string {
  // Of a number beyond 2^53 the digits are lost, and two users would be one.
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value)
  if (typeof value === 'string' && value !== '' && value.length <= LONGEST_NAME) return value
  throw new UnusableAnswer('the provider’s answer holds no usable subject')
}

/** A claim that is shown to people; undefined where it is of no use. */
export const shownClaim = (claim: unknown): string | undefined =>
  typeof claim === 'string' && claim !== '' && claim.length <= LONGEST_NAME ? claim : undefined
