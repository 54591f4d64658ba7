import { isObject } from '../../../../crds/settings/json.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import type { ItemKind } from '../../backends/lists/list-kind.ts'
import { untilActive } from '../../backends/session/resource-updates.ts'
import { relayCall } from '../../call/call.ts'
import { backendOfUri } from '../../core/view.ts'
import { encodeHeaderValue } from '../../mcp/headers.ts'
import { editObject, memberText } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import { withParams } from '../../mcp/rewrite.ts'
import type { Session } from '../../sessions/sessions.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'
import {
  answerVisible,
  at,
  checkMayGet,
  checkMayRead,
  checkMayRefer,
  destinationOf,
  unknown,
} from './caller-catalog.ts'
import { pageCheck } from './page-check.ts'

/** Serves `prompts/list`, `resources/list` and `resources/templates/list` from the serialized lists. */
export function listOf(request: EndpointRequest, kind: ItemKind): void {
  // A list has one page, so no cursor is ours.
  if ((request.message.params?.['cursor'] ?? undefined) !== undefined)
    throw invalid('params.cursor is not one of ours.')
  afterFirstLists(request, () => answerVisible(request, kind))
}

/** Serves `prompts/get`: finds the prompt by its shown name and relays the request. */
export function getPrompt(request: EndpointRequest): void {
  const name = request.message.parameter('name')
  if (name === undefined) throw invalid('params.name must be a string.')
  afterFirstLists(request, () => {
    checkMayGet(request, name)
    const route = request.view.promptsAndResources.prompts.get(name)
    if (route === undefined) throw unknown(request, 'unknown_prompt')
    relayCall(request.gateway, request, destinationOf(request, route))
  })
}

/** Serves `resources/read`: relays it to the backend that has the URI. */
export function readResource(request: EndpointRequest): void {
  afterFirstLists(request, () => {
    const { backend, uri } = backendOfRequest(request)
    const check = pageCheck(request, backend, uri, () => unknownResource(request, uri))
    relayCall(request.gateway, request, { ...at(backend, encodeHeaderValue(uri)), check })
  })
}

/** Serves `completion/complete`: relays it to the backend of the prompt or resource that it refers to. */
export function complete(request: EndpointRequest): void {
  const ref = request.message.params?.['ref']
  if (!isObject(ref)) throw invalid('params.ref must be an object.')
  afterFirstLists(request, () => {
    checkMayRefer(request, ref)
    const { promptsAndResources } = request.view
    if (ref['type'] !== 'ref/prompt') {
      const { uri } = ref
      const backend = typeof uri === 'string' ? backendOfUri(request.view, uri) : undefined
      if (backend === undefined) throw unknownResource(request, uri)
      relayCall(request.gateway, request, at(backend), asJudged(request, ref))
      return
    }
    const route = typeof ref['name'] === 'string' ? promptsAndResources.prompts.get(ref['name']) : undefined
    if (route === undefined) throw unknown(request, 'unknown_prompt')
    const { rename } = route
    const { backend } = destinationOf(request, route)
    const message = asJudged(request, ref)
    relayCall(request.gateway, request, at(backend), rename === undefined ? message : withPrompt(message, rename))
  })
}

/** The longest URI in characters: it is kept for as long as the session lives. */
const LONGEST_WATCHED = 8192

/** Serves `resources/subscribe` and `resources/unsubscribe`: relays them, or watches a modern backend's resource. */
export function subscribeResource(request: EndpointRequest): void {
  afterFirstLists(request, () => {
    const { backend, uri } = backendOfRequest(request)
    if (uri.length > LONGEST_WATCHED)
      throw new PublicError('too_large', { message: `params.uri has more than ${LONGEST_WATCHED} characters.` })
    request.run(() => watchAt(backend, uri, request))
  })
}

async function watchAt(backend: Backend, uri: string, request: EndpointRequest): Promise<void> {
  const { serverMessages } = request.gateway.sessions
  const session = request.session as Session
  const isEnd = request.message.method === 'resources/unsubscribe'
  const isWatched = session.watched.includes(uri)
  // An unreachable backend fails the relayed call.
  const isRelayed = !(isEnd && isWatched) && (await session.isServedIn(backend).catch(() => true))
  if (isRelayed) {
    relayCall(request.gateway, request, at(backend))
    return
  }
  await (isEnd ? serverMessages.unwatch(session, uri) : serverMessages.watch(session, uri))
  if (!isEnd) await untilActive(session.watchesOf(uri))
  request.result('{}')
}

/** Returns the backend that has the resource of a request. Throws if there is none. */
export function backendOfRequest(request: EndpointRequest): { readonly backend: Backend; readonly uri: string } {
  const uri = request.message.parameter('uri')
  if (uri === undefined) throw invalid('params.uri must be a string.')
  checkMayRead(request, uri)
  const backend = backendOfUri(request.view, uri)
  if (backend === undefined) throw unknownResource(request, uri)
  return { backend, uri }
}

const unknownResource = (request: EndpointRequest, uri: unknown): PublicError =>
  unknown(request, request.era === 'legacy' ? 'resource_not_found' : 'unknown_resource', { uri })

/** Replaces `ref` by the one that was authorized: of two members with one name, another parser may use the other. */
function asJudged({ message, setup, view }: EndpointRequest, ref: Readonly<Record<string, unknown>>): Message {
  if (setup.judge === undefined && view.backends.every(({ definitions }) => !definitions.areEnforced)) return message
  const params = message.text.slice(message.paramsStart, message.paramsEnd)
  return withParams(message, editObject(params, { ref: JSON.stringify(ref) }))
}

/** Replaces the name in the request's `ref` by the prompt's own name (JSON text). */
function withPrompt(message: Message, name: string): Message {
  const params = message.text.slice(message.paramsStart, message.paramsEnd)
  const ref = editObject(memberText(params, 'ref') as string, { name })
  return withParams(message, editObject(params, { ref }))
}

/** Calls `next` when all backends have given their lists once, or their time is over. */
export function afterFirstLists(request: EndpointRequest, next: () => void): void {
  if (request.view.allListed) next()
  else request.run(() => request.view.firstLists().then(next))
}

const invalid = (message: string): PublicError => new PublicError('invalid_params', { message })
