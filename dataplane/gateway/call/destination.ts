import type { Route } from '../aggregation/route.ts'
import type { Backend } from '../backends/backend/backend.ts'

/** Where a call goes: to the caller's own backend or to everybody's, and there along a route. */
export interface Destination {
  readonly backend: Backend
  readonly route: Route
  /** The name by which clients are shown the tool that the route leads to, where it was called by another one. */
  readonly shownName?: string | undefined
}
