import type { ClaimsMap } from '../authz/claims.ts'
import type { UpstreamMeta } from './official-meta.ts'

/** One checked version of a server or a skill as it comes from a source. */
export interface IncomingVersion extends UpstreamMeta {
  readonly type: EntryType
  readonly name: string
  readonly version: string
  readonly title: string | null
  readonly description: string | null
  /** The claims of the entry, if it carries its own (Kubernetes). Absent: the source's. */
  readonly claims?: ClaimsMap
  readonly document: string
}

export type EntryType = 'server' | 'skill'
