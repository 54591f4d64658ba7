import { answerLimited } from '../call/own-answers.ts'
import type { EndpointRequest } from './incoming/endpoint-exchange.ts'
import { calledName } from './tools/tools.ts'

/**
 * Takes a notification, of which nothing comes. A tool call without an id is one: no backend is called, since nobody
 * could be told what came of it; but it counts, so that leaving out the id is no way to call for nothing.
 */
export function takeNotification(request: EndpointRequest): void {
  const { message, caller, observation } = request
  if (message.method !== 'tools/call') {
    request.accepted()
    return
  }
  const refusal = request.gateway.rateLimits.take(caller, calledName(request), observation)
  if (refusal instanceof Promise)
    request.run(() => refusal.then((late) => (late === undefined ? request.accepted() : answerLimited(request, late))))
  else if (refusal === undefined) request.accepted()
  else answerLimited(request, refusal)
}
