import { isObject } from '../../../crds/settings/json.ts'
import { printable } from './names.ts'
import { timestamp } from './timestamp.ts'

/** The registry's own block beside a server document (MCP registry API v0.1). */
export const OFFICIAL = 'io.modelcontextprotocol.registry/official'

export type Status = 'active' | 'deprecated' | 'deleted'

/** What an upstream says of a version beside its document. */
export interface UpstreamMeta {
  readonly status: Status
  readonly statusMessage: string | null
  readonly statusChangedAt: string | null
  readonly publishedAt: string | null
  /** JSON text of the other blocks, handed on as they are; null where there are none. */
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
 * Reads the outer `_meta` of a list response. The upstream's status and time of publication are kept; `updatedAt` is
 * not: ours is when the version changed here, and whoever follows us by `updated_since` would miss what reached us
 * later than the upstream's own time. `isLatest` is found anew.
 */
export function readUpstreamMeta(meta: unknown): UpstreamMeta {
  const { [OFFICIAL]: official, ...others } = isObject(meta) ? meta : {}
  const { status, statusMessage, statusChangedAt, publishedAt } = isObject(official) ? official : {}
  return {
    status: STATUSES.includes(status) ? (status as Status) : 'active',
    statusMessage: typeof statusMessage === 'string' ? printable(statusMessage) : null,
    statusChangedAt: timeOf(statusChangedAt),
    publishedAt: timeOf(publishedAt),
    others: Object.keys(others).length === 0 ? null : JSON.stringify(others),
  }
}

/** When an upstream last changed a version, by its outer `_meta`. */
export function upstreamTime(meta: unknown): string | undefined {
  const official = isObject(meta) ? meta[OFFICIAL] : undefined
  return isObject(official) ? (timeOf(official['updatedAt']) ?? undefined) : undefined
}

/**
 * JSON text of the outer `_meta`. Never without the official block: VS Code fails on an entry that lacks it. Written out,
 * since a page has thirty: a status and our times have nothing to escape.
 */
export function writeMeta(official: OfficialMeta, others: string | null): string {
  const { status, statusMessage, statusChangedAt, publishedAt, updatedAt, isLatest } = official
  const times = `"statusChangedAt":"${statusChangedAt}","publishedAt":"${publishedAt}","updatedAt":"${updatedAt}"`
  const message = statusMessage === null ? '' : `,"statusMessage":${JSON.stringify(statusMessage)}`
  const block = `{"status":"${status}",${times},"isLatest":${isLatest}${message}}`
  return `{"${OFFICIAL}":${block}${others === null ? '}' : `,${others.slice(1)}`}`
}

function timeOf(value: unknown): string | null {
  return typeof value === 'string' ? (timestamp(value) ?? null) : null
}
