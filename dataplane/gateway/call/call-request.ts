import type { PublicError } from '../../server/errors.ts'
import type { Observation, Observe } from '../../telemetry/observe.ts'
import type { Route } from '../aggregation/shape.ts'
import type { UriNames } from '../aggregation/uri-names.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { Message } from '../mcp/message.ts'
import type { RateLimits } from '../rate-limits/rate-limits.ts'
import type { RequestContext } from '../request/exchange.ts'
import type { InFlight } from '../request/in-flight.ts'
import type { Session } from '../sessions/session.ts'
import type { ServerRequestServices } from './input/server-request.ts'
import type { SuspendedCalls } from './suspended/suspended-calls.ts'

/** The destination of a call: a route at the caller's own backend or at the shared one. */
export interface Destination {
  readonly backend: Backend
  readonly route: Route
  /** The name that clients know for the tool of the route, if the call used a different one. */
  readonly shownName?: string | undefined
  /** Checks the answer before any of it reaches the client; absent: the answer is relayed as it arrives. */
  readonly check?: AnswerCheck | undefined
  /** The mapping of the backend's URIs to those that clients know; undefined if they are equal. */
  readonly names?: UriNames | undefined
  readonly answer?: WholeAnswer | undefined
}

/** A check of an answer, which is buffered whole for it. */
export interface AnswerCheck {
  /** The largest answer in bytes that is checked. */
  readonly mostBytes: number
  /** True if nothing may reach the client unchecked; false if the answer does so in any case. */
  readonly isRequired: boolean
  /**
   * Returns the result (JSON text) for the client in place of this one, or an error. `undefined` means that the answer
   * is too large.
   */
  checked(result: string | undefined): string | PublicError
}

/** Changes the result of a call before the client gets it. */
export interface WholeAnswer {
  /** Converts a result to another one, as JSON text. May throw a PublicError. */
  edit(result: string): string
  /** Returns the result for a backend that can't be reached; undefined if there is none. */
  otherwise?(): string | undefined
}

/** The parts of the gateway that a call uses. */
export interface CallServices extends ServerRequestServices {
  readonly inFlight: InFlight
  readonly rateLimits: Pick<RateLimits, 'take'>
  readonly suspended: SuspendedCalls
  readonly observe: Observe
  /** Logs an error in an operation that no request waits for. */
  faulted(error: unknown, what: string): void
}

/** The request of a call, its destination and its client. */
export interface CallRequest extends Destination {
  readonly services: CallServices
  readonly context: RequestContext
  readonly session: Session | undefined
  /** The client's id of that request, as JSON text. */
  readonly id: string
  /** The request as the backend received it first. Later ones are retries with their own progress tokens. */
  readonly first: Message
  /** The client's latest request, without the changes that the route makes. */
  readonly message: Message
  /** The number of times that the backend has asked for input. */
  readonly rounds: number
  readonly observed: Observation
}
