import type { Observe } from '../../telemetry/observe.ts'
import type { RateLimits } from '../rate-limits/rate-limits.ts'
import type { InFlight } from '../request/in-flight.ts'
import type { RequestContext } from '../request/request-context.ts'
import type { ServerRequestServices } from './input/server-request.ts'
import type { Suspensions } from './suspended/suspended-call.ts'

/** Calls of modern clients that wait for input which their legacy backends have requested (`SuspendedCalls`). */
interface SuspendedCallStore extends Suspensions {
  /** Resumes the call that the request's state names; false where the state is none of ours. */
  resume(context: RequestContext): boolean
}

/** What a call needs of the gateway. */
export interface CallServices extends ServerRequestServices {
  readonly inFlight: InFlight
  readonly rateLimits: Pick<RateLimits, 'take'>
  readonly suspended: SuspendedCallStore
  readonly observe: Observe
  /** Logs a fault in something that no request waits for. */
  faulted(error: unknown, what: string): void
}
