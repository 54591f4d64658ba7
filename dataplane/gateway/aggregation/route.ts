import type { Operation } from '../../telemetry/observe.ts'
import type { ParamHeader } from '../mcp/headers.ts'

/** Where a call of a shown tool goes. */
export interface Route {
  /** Name of the backend: which one it is, everybody's or the caller's own, a view says. */
  readonly backend: string
  /** The backend's own name for the tool. */
  readonly tool: string
  /** That name as JSON text; undefined where it is the shown one. */
  readonly rename: string | undefined
  /** That name as a header value. */
  readonly nameHeader: string
  readonly paramHeaders: readonly ParamHeader[]
  /** Whether the tool says that a call of it may be repeated. */
  readonly isRepeatable?: boolean
  /** What is measured of a call of the tool; absent where it leads to something else. */
  readonly operation?: Operation
}
