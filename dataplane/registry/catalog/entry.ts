import type { ClaimsMap } from '../authz/claims.ts'
import type { UpstreamMeta } from './official-meta.ts'

/** One checked version of a server or a skill as it comes from a source. */
export interface IncomingVersion extends UpstreamMeta {
  readonly type: EntryType
  /** `namespace/name`. */
  readonly name: string
  readonly version: string
  readonly title: string | null
  readonly description: string | null
  /**
   * The claims of the entry, if the source does not decide: Kubernetes entries carry their own. Absent: the source's.
   */
  readonly claims?: ClaimsMap
  /** JSON text of the document. */
  readonly document: string
}

/** The kinds of entries. */
export type EntryType = 'server' | 'skill'
