import type { ClaimsMap } from '../authz/claims.ts'
import type { UpstreamMeta } from './official-meta.ts'

/** One version of a server or a skill as it comes from a source, checked. */
export interface IncomingVersion extends UpstreamMeta {
  readonly type: EntryType
  /** `namespace/name`. */
  readonly name: string
  readonly version: string
  readonly title: string | null
  readonly description: string | null
  /** Of the entry, where the source does not decide: Kubernetes entries carry their own. Absent: the source's. */
  readonly claims?: ClaimsMap
  /** JSON text of the document. */
  readonly document: string
}

/** What an entry of the catalog is. */
export type EntryType = 'server' | 'skill'
