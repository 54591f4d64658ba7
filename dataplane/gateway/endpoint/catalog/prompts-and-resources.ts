import { isObject } from '../../../../crds/settings/json.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import type { ItemKind } from '../../backends/lists/list-kind.ts'
import { untilActive } from '../../backends/session/resource-watch.ts'
import { READ } from '../../call/answer-translation.ts'
import { relayCall } from '../../call/call.ts'
import type { AnswerCheck } from '../../call/call-request.ts'
import { findResource, type ResourceAt } from '../../core/view.ts'
import { encodeHeaderValue } from '../../mcp/eras.ts'
import { editObject, memberText } from '../../mcp/json.ts'
import { type Message, withParams } from '../../mcp/message.ts'
import type { Session } from '../../sessions/session.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'
import {
  answerVisible,
  at,
  checkMayGet,
  checkMayRead,
  checkMayRefer,
  findDestination,
  unknown,
} from './caller-catalog.ts'

/** Serves `prompts/list`, `resources/list` and `resources/templates/list` from the serialized lists. */
export function serveList(request: EndpointRequest, kind: ItemKind): void {
  // Each list has one page, so this server has never issued a cursor.
  if (request.message.cursor !== undefined) throw invalid('params.cursor is not one that this server gave.')
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
    relayCall(request.gateway, request, findDestination(request, route))
  })
}

/** Serves `resources/read`: relays it to the backend that has the URI. */
export function readResource(request: EndpointRequest): void {
  afterFirstLists(request, () => {
    const { backend, own, names, uri } = resourceOfRequest(request)
    const check = pageCheck(request, backend, own, () => unknownResource(request, uri))
    const destination = { ...at(backend, encodeHeaderValue(own), '', names), check }
    relayCall(request.gateway, request, destination, withUri(request.message, own))
  })
}

/** Serves `completion/complete`: relays it to the backend of the referenced prompt or resource. */
export function complete(request: EndpointRequest): void {
  const ref = request.message.params?.['ref']
  if (!isObject(ref)) throw invalid('params.ref must be an object.')
  afterFirstLists(request, () => {
    checkMayRefer(request, ref)
    if (ref['type'] === 'ref/prompt') completePrompt(request, ref)
    else completeResource(request, ref)
  })
}

type Ref = Readonly<Record<string, unknown>>

function completeResource(request: EndpointRequest, ref: Ref): void {
  const { uri } = ref
  const found = typeof uri === 'string' ? findResource(request.view, uri) : undefined
  if (found === undefined) throw unknownResource(request, uri)
  const { backend, own } = found
  const message = own === uri ? asAuthorized(request, ref) : withRef(request.message, { ...ref, uri: own })
  relayCall(request.gateway, request, at(backend), message)
}

function completePrompt(request: EndpointRequest, ref: Ref): void {
  const { prompts } = request.view.promptsAndResources
  const route = typeof ref['name'] === 'string' ? prompts.get(ref['name']) : undefined
  if (route === undefined) throw unknown(request, 'unknown_prompt')
  const { rename } = route
  const { backend } = findDestination(request, route)
  const message = asAuthorized(request, ref)
  relayCall(request.gateway, request, at(backend), rename === undefined ? message : withPrompt(message, rename))
}

/** The longest URI in characters. It is stored for the lifetime of the session. */
const LONGEST_WATCHED = 8192

/** Serves `resources/subscribe` and `resources/unsubscribe`: relays them, or watches a modern backend's resource. */
export function subscribeResource(request: EndpointRequest): void {
  afterFirstLists(request, () => {
    const { uri, ...found } = resourceOfRequest(request)
    if (uri.length > LONGEST_WATCHED)
      throw new PublicError('too_large', { message: `params.uri has more than ${LONGEST_WATCHED} characters.` })
    request.run(() => watchAt(found, uri, request))
  })
}

async function watchAt({ backend, own, names }: ResourceAt, uri: string, request: EndpointRequest): Promise<void> {
  const { serverMessages } = request.gateway.sessions
  const session = request.session as Session
  const isEnd = request.message.method === 'resources/unsubscribe'
  const isWatched = session.watched.includes(uri)
  // If the backend can't be reached, the relayed call fails and reports it.
  const isRelayed = !(isEnd && isWatched) && (await session.isServedIn(backend).catch(() => true))
  if (isRelayed) {
    await session.noteSubscription(backend, own, isEnd)
    relayCall(request.gateway, request, at(backend, '', '', names), withUri(request.message, own))
    return
  }
  await (isEnd ? serverMessages.unwatch(session, uri) : serverMessages.watch(session, uri))
  if (!isEnd) await untilActive(session.watchesOf(uri))
  request.result('{}')
}

/** Finds the resource of a request by the URI that clients use. Throws if there is none. */
function resourceOfRequest(request: EndpointRequest): ResourceAt & { readonly uri: string } {
  const uri = requireUri(request)
  checkMayRead(request, uri)
  const found = findResource(request.view, uri)
  if (found === undefined) throw unknownResource(request, uri)
  return { ...found, uri }
}

export function requireUri({ message }: EndpointRequest): string {
  const uri = message.parameter('uri')
  if (uri === undefined) throw invalid('params.uri must be a string.')
  return uri
}

/** Returns a request with the backend's own URI. */
export const withUri = (message: Message, own: string): Message =>
  message.parameter('uri') === own ? message : message.withUri(own)

const unknownResource = (request: EndpointRequest, uri: unknown): PublicError =>
  unknown(request, request.era === 'legacy' ? 'resource_not_found' : 'unknown_resource', { uri })

/** Replaces `ref` by the authorized one, because another parser may use the other of two members with this name. */
const asAuthorized = ({ message, setup, view }: EndpointRequest, ref: Ref): Message =>
  setup.authorizer === undefined && view.backends.every(({ definitions }) => !definitions.areEnforced)
    ? message
    : withRef(message, ref)

const withRef = (message: Message, ref: Ref): Message => editParams(message, { ref: JSON.stringify(ref) })

/** Replaces members of a request's params by JSON text, or removes them (undefined). */
export function editParams(message: Message, edits: Readonly<Record<string, string | undefined>>): Message {
  const { text, paramsStart, paramsEnd } = message
  return withParams(message, editObject(text.slice(paramsStart, paramsEnd), edits))
}

/** Replaces the name in the request's `ref` by the backend's own name of the prompt (JSON text). */
function withPrompt(message: Message, name: string): Message {
  const params = message.text.slice(message.paramsStart, message.paramsEnd)
  return editParams(message, { ref: editObject(memberText(params, 'ref') as string, { name }) })
}

/** Calls `next` when all backends have returned their first lists, or have taken too long. */
export function afterFirstLists(request: EndpointRequest, next: () => void): void {
  if (request.view.allListed) next()
  else request.run(() => request.view.firstLists().then(next))
}

export const invalid = (message: string): PublicError => new PublicError('invalid_params', { message })

/** The largest answer that contains a page, in bytes. */
const MOST_BYTES = 4 * 1024 * 1024

/**
 * Returns the check for a read of an app's page; undefined if the backend has no pins, or the URI is not a page's. An
 * unapproved page is answered like a missing resource (`missing`), so that nothing of it reaches the client.
 */
function pageCheck(
  { era, gateway }: EndpointRequest,
  backend: Backend,
  uri: string,
  missing: () => PublicError,
): AnswerCheck | undefined {
  const { definitions, tools = [] } = backend
  if (definitions.pins === undefined) return undefined
  if (!definitions.isPage(uri) && !tools.some(({ app }) => app?.uri === uri)) return undefined
  return {
    mostBytes: MOST_BYTES,
    isRequired: definitions.areEnforced,
    checked(result = '') {
      const contents = memberText(result, 'contents')
      const reason = definitions.reasonAgainstPage(uri, contents)
      gateway.approvals.pageRead(backend, uri, reason)
      if (reason !== undefined || contents === undefined) return missing()
      // Other members of the result are not approved, so they are left out.
      return era === 'modern' ? `{${READ},"contents":${contents}}` : `{"contents":${contents}}`
    },
  }
}
