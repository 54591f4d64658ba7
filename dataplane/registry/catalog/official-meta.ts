import { isObject } from '../../../crds/settings/json.ts'
import { printable } from './names.ts'
import { timestamp } from './timestamp.ts'

/** The registry's own block beside a server document (MCP registry API v0.1). */
export const OFFICIAL = 'io.modelcontextprotocol.registry/official'

export type Status = 'active' | 'deprecated' | 'deleted'

/** The upstream's metadata of a version, beside its document. */
export interface UpstreamMeta {
  readonly status: Status
  readonly statusMessage: string | null
  readonly statusChangedAt: string | null
  readonly publishedAt: string | null
  /** The JSON text of the other blocks, passed on unchanged; null if there are none. */
  readonly others: string | null
}

interface OfficialMeta {
  readonly status: Status
  readonly statusMessage: string | null
  readonly statusChangedAt: string
  readonly publishedAt: string
  readonly updatedAt: string
  readonly isLatest: boolean
}

const STATUSES: readonly unknown[] = ['active', 'deprecated', 'deleted'] satisfies Status[]

/**
 * Reads the outer `_meta` of a list response: the upstream's status and time of publication. `updatedAt` is ours: a
 * client that follows us by `updated_since` would otherwise miss late arrivals.
 */
export function readUpstreamMeta(meta: unknown): UpstreamMeta {
  const { [OFFICIAL]: official, ...others } = isObject(meta) ? meta : {}
  const { status: said, statusMessage, statusChangedAt, publishedAt } = isObject(official) ? official : {}
  const status = typeof said === 'string' ? said.toLowerCase() : said
  return {
    status: STATUSES.includes(status) ? (status as Status) : 'active',
    statusMessage: typeof statusMessage === 'string' ? printable(statusMessage) : null,
    statusChangedAt: readTime(statusChangedAt),
    publishedAt: readTime(publishedAt),
    others: Object.keys(others).length === 0 ? null : JSON.stringify(others),
  }
}

/** Returns the time when an upstream last changed a version, from its outer `_meta`. */
export function upstreamTime(meta: unknown): string | undefined {
  const official = isObject(meta) ? meta[OFFICIAL] : undefined
  return isObject(official) ? (readTime(official['updatedAt']) ?? undefined) : undefined
}

/** Writes the JSON text of the outer `_meta`. It always has the official block: VS Code fails without it. */
export function writeMeta(official: OfficialMeta, others: string | null): string {
  const { status, statusMessage, statusChangedAt, publishedAt, updatedAt, isLatest } = official
  const times = `"statusChangedAt":"${statusChangedAt}","publishedAt":"${publishedAt}","updatedAt":"${updatedAt}"`
  const message = statusMessage === null ? '' : `,"statusMessage":${JSON.stringify(statusMessage)}`
  const block = `{"status":"${status}",${times},"isLatest":${isLatest}${message}}`
  return `{"${OFFICIAL}":${block}${others === null ? '}' : `,${others.slice(1)}`}`
}

function readTime(value: unknown): string | null {
  return typeof value === 'string' ? (timestamp(value) ?? null) : null
}
