import { isObject } from '../../../crds/settings/json.ts'
import type { ClaimsMap } from '../../identity/claims.ts'

/** A version of a server or skill that came from a source and passed its checks. */
export interface IncomingVersion extends UpstreamMeta {
  readonly type: EntryType
  readonly name: string
  readonly version: string
  readonly title: string | null
  readonly description: string | null
  /** The entry's own claims (Kubernetes). Absent: the claims of its source apply. */
  readonly claims?: ClaimsMap
  readonly document: string
}

export type EntryType = 'server' | 'skill'

/** Returns the values of an object's members; none for other values. */
export const listMembers = (value: unknown): unknown[] => (isObject(value) ? Object.values(value) : [])

/** The block of `_meta` for publishers. */
export const PUBLISHER_PROVIDED = 'io.modelcontextprotocol.registry/publisher-provided'
/** The registry's own block beside a server document (MCP registry API v0.1). */
export const OFFICIAL = 'io.modelcontextprotocol.registry/official'

export type Status = 'active' | 'deprecated' | 'deleted'

/** The metadata that an upstream registry gives beside a document. */
interface UpstreamMeta {
  readonly status: Status
  readonly statusMessage: string | null
  readonly statusChangedAt: string | null
  readonly publishedAt: string | null
  /** The JSON text of the other blocks, passed on unchanged; null if there are none. */
  readonly others: string | null
}

const STATUSES: readonly unknown[] = ['active', 'deprecated', 'deleted'] satisfies Status[]

/**
 * Reads the `_meta` beside a document in a list response. The upstream's `updatedAt` is left out: we set our own, since
 * clients that ask us with `updated_since` would otherwise miss versions that reach us late.
 */
export function readUpstreamMeta(meta: unknown): UpstreamMeta {
  const { [OFFICIAL]: official, ...others } = isObject(meta) ? meta : {}
  const { status: given, statusMessage, statusChangedAt, publishedAt } = isObject(official) ? official : {}
  const status = typeof given === 'string' ? given.toLowerCase() : given
  return {
    status: STATUSES.includes(status) ? (status as Status) : 'active',
    statusMessage: typeof statusMessage === 'string' ? printable(statusMessage) : null,
    statusChangedAt: readTime(statusChangedAt),
    publishedAt: readTime(publishedAt),
    others: Object.keys(others).length === 0 ? null : JSON.stringify(others),
  }
}

/** Reads when an upstream last changed a version, from the `_meta` beside its document. */
export function upstreamTime(meta: unknown): string | undefined {
  const official = isObject(meta) ? meta[OFFICIAL] : undefined
  return isObject(official) ? (readTime(official['updatedAt']) ?? undefined) : undefined
}

function readTime(value: unknown): string | null {
  return typeof value === 'string' ? (timestamp(value) ?? null) : null
}

/** A server's name: `namespace/name`, 3 to 200 characters (server.json schema 2025-12-11). */
const SERVER_NAME = /^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/

export function isServerName(name: string): boolean {
  return name.length >= 3 && name.length <= 200 && SERVER_NAME.test(name)
}

/** Control characters break lines and columns, and PostgreSQL refuses U+0000. */
const CONTROL = /\p{Cc}/u

/**
 * Tells whether a text is a version: 1 to 255 characters, and not `latest`, which asks for the newest. Lone surrogates
 * are refused, since the store could not tell them apart.
 */
export function isVersion(version: string): boolean {
  const isText = version.isWellFormed() && !CONTROL.test(version)
  return isText && version !== '' && !isLonger(version, 255) && version !== 'latest'
}

/** Removes U+0000, which PostgreSQL refuses, and replaces lone surrogates, which UTF-8 can't hold. */
export function printable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed()
}

export function isLonger(text: string, most: number): boolean {
  return text.length > most && Array.from(text).length > most
}

/** Date and time of RFC 3339 section 5.6; `T` and `Z` in either case, as it allows. */
const DATE_TIME = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i
/** The limits of four-digit years. A later or earlier year gets a sign, and no longer sorts as text. */
const FIRST = Date.parse('0000-01-01T00:00:00.000Z')
const LAST = Date.parse('9999-12-31T23:59:59.999Z')

/**
 * Converts an RFC 3339 time to UTC with milliseconds (`2026-11-20T15:04:05.000Z`), which sorts as text. Undefined for
 * other texts.
 */
export function timestamp(text: string): string | undefined {
  const [, day] = DATE_TIME.exec(text) ?? []
  if (day === undefined || !isDay(day)) return undefined
  const time = Date.parse(text.toUpperCase())
  return Number.isNaN(time) ? undefined : new Date(Math.min(Math.max(time, FIRST), LAST)).toISOString()
}

/** Tells whether the calendar has such a day: JavaScript reads February 30 as March 2. */
function isDay(day: string): boolean {
  const time = new Date(`${day}T00:00:00Z`)
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(day)
}
