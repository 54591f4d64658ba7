import { isIP } from 'node:net'
import type { Finding } from '../load.ts'
import { type AddressClass, classifyAddress } from './address.ts'

/** Checks a URL that our side calls or publishes. `pointer` is its place in the configuration. */
export function urlFindings(text: string, pointer: string): readonly Finding[] {
  const url = URL.parse(text)
  if (url === null) return [{ pointer, message: 'is not a URL' }]
  return [
    ...(url.username !== '' || url.password !== '' ? [{ pointer, message: 'must hold no credentials' }] : []),
    ...(url.hash === '' && !text.includes('#') ? [] : [{ pointer, message: 'must have no fragment' }]),
  ]
}

/** Checks that a URL is https, or on loopback, or anything by choice; `setting`: the one that makes this choice. */
export function plainHttpFindings(
  url: URL | null,
  pointer: string,
  isAllowed = false,
  setting = 'insecureAllowHTTP',
): readonly Finding[] {
  if (url === null || url.protocol === 'https:' || isLoopback(url) || isAllowed) return []
  const choice = setting === '' ? '' : `, or needs ${setting}: true`
  return [{ pointer, message: `must be https; plain http is for loopback${choice}` }]
}

/**
 * Returns the class of the address that a URL's host spells out in any form (`127.1`, `0x7f000001`,
 * `[::ffff:127.0.0.1]`), or of `localhost` and names below it (RFC 6761, section 6.3). Undefined for names that are
 * resolved later.
 */
function literalClass({ hostname }: URL): AddressClass | undefined {
  const host = hostname.replace(/^\[|\]$|\.$/g, '')
  if (host === 'localhost' || host.endsWith('.localhost')) return 'loopback'
  return isIP(host) === 0 ? undefined : classifyAddress(host)
}

/** Tells whether a URL leads to this machine alone. */
export const isLoopback = (url: URL): boolean => literalClass(url) === 'loopback'

/** Names of Services as pods of their namespace, and of others, write them. */
const OF_CLUSTER = /^[a-z0-9-]+$|\.svc(\.cluster\.local)?\.?$/

/** Tells whether a URL names a Service of the cluster, a private address, or this machine. */
export function isClusterOrPrivate(url: URL): boolean {
  const addressClass = literalClass(url)
  return addressClass === undefined ? isOfCluster(url) : addressClass === 'private' || addressClass === 'loopback'
}

/** Tells whether a URL leads to a Service of the cluster by its name. */
export const isOfCluster = (url: URL): boolean => OF_CLUSTER.test(url.hostname)

interface Reachable {
  readonly allowPrivateIP?: boolean | undefined
  readonly allowLoopback?: boolean | undefined
  /** The setting that would allow it, for the message. */
  readonly allowedBy?: string | undefined
}

/** Returns a finding if a URL names an address to which these settings allow no connection (net/connect.ts). */
export function addressFindings(text: string, pointer: string, reachable: Reachable): readonly Finding[] {
  const url = URL.parse(text)
  const addressClass = url === null ? undefined : literalClass(url)
  if (addressClass === undefined || addressClass === 'public') return []
  if (addressClass === 'never')
    return [{ pointer, message: `${url?.hostname} is a reserved or link-local address: it is never called` }]
  if (reachable.allowPrivateIP || (addressClass === 'loopback' && reachable.allowLoopback)) return []
  const allowed =
    reachable.allowedBy === undefined ? 'it is not called' : `it is called only under ${reachable.allowedBy}`
  const message = `${url?.hostname} is a ${addressClass} address: ${allowed}`
  return [{ pointer, message }]
}

const OWN_NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * Returns a URL on loopback in the first of `spellings` with the same endpoint: clients compare `localhost`,
 * `127.0.0.1` and `[::1]` as texts.
 */
export function spelledAs(url: string, spellings: readonly (string | undefined)[]): string {
  const own = URL.parse(url)
  if (own === null || !OWN_NAMES.has(own.hostname)) return url
  const isSame = (text: string | undefined): text is string => {
    const other = URL.parse(text ?? '')
    const parts = ['protocol', 'port', 'pathname', 'search'] as const
    return other !== null && OWN_NAMES.has(other.hostname) && parts.every((part) => other[part] === own[part])
  }
  return spellings.find(isSame) ?? url
}

/** The part of a URL from `://` on, without white space, quote, bracket and backslash. Linear. */
const REST_OF_URL = /:\/\/[^\s"'<>\\]+/g

/** Removes the parts of URLs that hold keys: user name and password, query and fragment. */
export const withoutUrlSecrets = (text: string): string =>
  text.includes('://') ? text.replace(REST_OF_URL, withoutSecrets) : text

function withoutSecrets(rest: string): string {
  const end = rest.search(/[?#]/)
  const kept = end === -1 ? rest : rest.slice(0, end)
  const slash = kept.indexOf('/', '://'.length)
  const authority = slash === -1 ? kept : kept.slice(0, slash)
  const at = authority.lastIndexOf('@')
  return at === -1 ? kept : `://${kept.slice(at + 1)}`
}

export const REDACTED = '[redacted]'

const BEARER = /\b(?:Bearer|Basic) +[\w.~+/-]{8,}=*/gi
/** Three parts with dots between. It begins at the start of a word, so that a long word is scanned once. */
const DOTTED = /(?<![\w-])[\w-]+\.[\w-]+\.[\w-]*/g
const TOKEN = /eyJ[\w-]{8,}\./

/** Removes leaked credentials from a text: bearer and basic credentials, JSON Web Tokens. Takes linear time. */
export function withoutCredentials(text: string): string {
  const plain = text.replace(BEARER, REDACTED)
  return plain.includes('eyJ') ? plain.replace(DOTTED, (word) => (TOKEN.test(word) ? REDACTED : word)) : plain
}

/** Removes leaked credentials and the secret parts of URLs from a text that people read. Takes linear time. */
export const maskSecrets = (text: string): string => withoutUrlSecrets(withoutCredentials(text))
