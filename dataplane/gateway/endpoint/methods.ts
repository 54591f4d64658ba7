import { PublicError } from '../../server/errors.ts'
import { answerLimited } from '../call/own-answers.ts'
import { complete, getPrompt, listOf, readResource } from './catalog/prompts-and-resources.ts'
import { getSkill, listSkills, readDirectory } from './catalog/skills.ts'
import type { EndpointRequest } from './incoming/endpoint-exchange.ts'
import { calledName, callTool, listTools } from './tools/tools.ts'

type Serve = (request: EndpointRequest) => void

/** The methods that both eras share. */
const ofBoth: Readonly<Record<string, Serve>> = {
  'tools/call': callTool,
  'tools/list': listTools,
  'prompts/list': (request) => listOf(request, 'prompts'),
  'prompts/get': getPrompt,
  'resources/list': (request) => listOf(request, 'resources'),
  'resources/templates/list': (request) => listOf(request, 'templates'),
  'resources/read': readResource,
  'completion/complete': complete,
  'skills/list': listSkills,
  'skills/get': getSkill,
  'resources/directory/read': readDirectory,
}

/** Returns the `Serve` function of an era with the additional methods `more`. Others throw `method_not_found`. */
export function serveMethods(more: Readonly<Record<string, Serve>>): Serve {
  const methods = new Map(Object.entries({ ...ofBoth, ...more }))
  return (request) => {
    const serve = methods.get(request.message.method)
    if (serve === undefined) throw new PublicError('method_not_found')
    serve(request)
  }
}

/**
 * Accepts a notification and does nothing. A tool call without an id is a notification. It is not sent to a backend,
 * since nobody would get its result, but it counts for rate limits.
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
