import type { Details, Observation, Observe } from '../../telemetry/observe.ts'
import type { Route } from '../aggregation/route.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { Message } from '../mcp/message.ts'
import type { RateLimits } from '../rate-limits/rate-limits.ts'
import type { RequestContext } from '../request/exchange.ts'
import type { InFlight } from '../request/in-flight.ts'
import { messageDetails } from '../request/request-details.ts'
import type { Session } from '../sessions/sessions.ts'
import type { ServerRequestServices } from './input/server-request.ts'
import type { SuspendedCalls } from './suspended/suspended-calls.ts'

/** Where a call goes: to the caller's own backend or to everybody's, and there along a route. */
export interface Destination {
  readonly backend: Backend
  readonly route: Route
  /** The name by which clients are shown the tool that the route leads to, where it was called by another one. */
  readonly shownName?: string | undefined
}

/** What a call needs of the gateway. */
export interface CallServices extends ServerRequestServices {
  readonly inFlight: InFlight
  readonly rateLimits: Pick<RateLimits, 'take'>
  readonly suspended: SuspendedCalls
  readonly observe: Observe
  /** Logs a fault in something that no request waits for. */
  faulted(error: unknown, what: string): void
}

/** What a call asks of its backend, and for whom. */
export interface Asked extends Destination {
  readonly services: CallServices
  /** The request of the client that waits for the answer. */
  readonly context: RequestContext
  readonly session: Session | undefined
  /** The client's id of that request, as JSON text. */
  readonly id: string
  /** The request that the backend has got; later ones are retries, with progress tokens of their own. */
  readonly first: Message
  /** The client's request as it was sent last, but for what the route rewrites. */
  readonly message: Message
  /** How often the backend has asked for input. */
  readonly rounds: number
  /** What is measured of the call. */
  readonly observed: Observation
}

/** Whom a call asks for what, by the semantic conventions for MCP. Of the backend's URL nothing but host and port. */
export function callDetails({ message, route, backend }: Pick<Asked, 'message' | 'route' | 'backend'>): Details {
  const { hostname, port, protocol } = backend.url
  const isHttp = protocol === 'http:' || protocol === 'https:'
  return {
    ...messageDetails(message),
    ...(message.method === 'tools/call' ? { 'gen_ai.tool.name': route.tool } : {}),
    'mcp.protocol.version': backend.revision ?? undefined,
    'network.transport': isHttp ? 'tcp' : 'pipe',
    ...(isHttp
      ? { 'server.address': hostname, 'server.port': Number(port || (protocol === 'https:' ? 443 : 80)) }
      : {}),
  }
}
