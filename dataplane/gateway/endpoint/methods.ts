import { PublicError } from '../../server/errors.ts'
import { answerLimited } from '../call/own-answers.ts'
import { complete, getPrompt, listOf, readResource } from './catalog/prompts-and-resources.ts'
import type { EndpointRequest } from './incoming/endpoint-exchange.ts'
import { calledName, callTool, listTools } from './tools/tools.ts'

type Serve = (request: EndpointRequest) => void

/** What is served alike in both eras. */
const ofBoth: Readonly<Record<string, Serve>> = {
  'tools/call': callTool,
  'tools/list': listTools,
  'prompts/list': (request) => listOf(request, 'prompts'),
  'prompts/get': getPrompt,
  'resources/list': (request) => listOf(request, 'resources'),
  'resources/templates/list': (request) => listOf(request, 'templates'),
  'resources/read': readResource,
  'completion/complete': complete,
}

/** Serves requests of one era, which has some methods `more`. Throws `method_not_found` for all others. */
export function serveMethods(more: Readonly<Record<string, Serve>>): Serve {
  const methods = new Map(Object.entries({ ...ofBoth, ...more }))
  return (request) => {
    const serve = methods.get(request.message.method)
    if (serve === undefined) throw new PublicError('method_not_found')
    serve(request)
  }
}

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
