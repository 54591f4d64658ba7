import { PublicError } from '../../server/errors.ts'
import { MOST_CALLS } from '../backends/connection/transport.ts'
import type { Message } from '../mcp/message.ts'
import type { Refusal } from '../rate-limits/rate-limits.ts'
import { OK, type RequestContext } from '../request/request-context.ts'
import { AnswerRelay } from './answer-relay.ts'
import { Call } from './call.ts'
import type { CallServices } from './call-services.ts'
import type { Destination } from './destination.ts'
import { withoutLinkResponse } from './link-answer.ts'
import { UpstreamRequest } from './upstream-request.ts'

/** Half of the connections for calls to a backend: whoever lets calls hang leaves room for the others. */
const MOST_CALLS_OF_CALLER = MOST_CALLS / 2

/**
 * Calls a backend for the client of a request: one request to the backend, whatever eras meet, whose answer, of
 * whatever kind, goes to the context. `message` is the client's request, but for what the route can't rewrite. Throws
 * `share_exceeded`, `backend_unavailable`, and `invalid_params` where the `requestState` of the request is no good.
 */
export function relayCall(
  services: CallServices,
  context: RequestContext,
  destination: Destination,
  message: Message = context.message,
): void {
  const call = new Call(services, context, destination, withoutLinkResponse(message))
  if (isResumed(call)) {
    call.observed.end(OK)
    return
  }
  admit(call)
  const upstream = new UpstreamRequest(call)
  const relay = new AnswerRelay(call, upstream)
  call.begin(upstream, relay)
  const refusal = rateLimit(call, destination.shownName)
  if (refusal === undefined) upstream.begin(relay)
  else if (!(refusal instanceof Promise)) call.limited(refusal)
  else
    refusal.then(
      (late) => {
        if (late !== undefined) call.limited(late)
        else if (!call.isOver) upstream.begin(relay)
      },
      (error) => call.faulted(error),
    )
}

/** Every tool call passes here once, whoever makes it: what is sent once more, or resumed, does not. */
function rateLimit(
  { services, context, message, parent }: Call,
  shownName: string | undefined,
): Refusal | undefined | Promise<Refusal | undefined> {
  if (message.method !== 'tools/call') return undefined
  return services.rateLimits.take(context.caller, shownName ?? message.parameter('name') ?? '', parent)
}

/** Whether the request is the retry of a suspended call, which is resumed. */
function isResumed({ services, context, message }: Call): boolean {
  if (context.era === 'legacy' || message.params?.['requestState'] === undefined) return false
  return services.suspended.resume(context)
}

function admit({ share, backend, observed }: Call): void {
  const code =
    share !== undefined && share.mostCalls >= MOST_CALLS_OF_CALLER
      ? 'share_exceeded'
      : backend.health.mayTry(share)
        ? undefined
        : 'backend_unavailable'
  if (code === undefined) return
  observed.end({ result: 'error', code })
  throw new PublicError(code)
}
