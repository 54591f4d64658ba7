import type { Operation } from '../../telemetry/observe.ts'
import type { ParamHeader } from '../mcp/headers.ts'

/** The target of a call of a shown tool. */
export interface Route {
  /** The name of the backend. The view tells whether it is the shared one or the caller's own. */
  readonly backend: string
  /** The backend's own name for the tool. */
  readonly tool: string
  /** The backend's name for the tool as JSON text; undefined if it equals the shown name. */
  readonly rename: string | undefined
  /** That name as a header value. */
  readonly nameHeader: string
  readonly paramHeaders: readonly ParamHeader[]
  /** The digest of the definition that was approved, for the audit log; undefined if the backend has no pins. */
  readonly digest?: string | undefined
  /** True if the tool declares that a call may be repeated. */
  readonly isRepeatable?: boolean
  /** The metric for calls of the tool; absent if the route leads to something else. */
  readonly operation?: Operation
}
