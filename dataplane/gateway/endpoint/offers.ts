import { isObject } from '../../../crds/shared/json.ts'
import { PublicError } from '../../server/errors.ts'
import { backendOfUri } from '../aggregation/offer-catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { OfferKind } from '../backends/lists/list-kind.ts'
import { untilHeard } from '../backends/session/resource-updates.ts'
import { isServedInSession } from '../call/asking/served-in-session.ts'
import { Call } from '../call/call.ts'
import { encodeHeaderValue } from '../mcp/headers.ts'
import { editObject, memberText } from '../mcp/json.ts'
import type { Message } from '../mcp/message.ts'
import { withParams } from '../mcp/rewrite.ts'
import type { Session } from '../sessions/sessions.ts'
import type { EndpointRequest } from './endpoint-request.ts'

/** `prompts/list`, `resources/list` and `resources/templates/list`: what is there, serialized. */
export function listOf(turn: EndpointRequest, kind: OfferKind): void {
  // A list has one page, so no cursor is ours.
  if (turn.message.params?.['cursor'] !== undefined) throw invalid('params.cursor is not one of ours.')
  onceAsked(turn, () => {
    turn.gateway.checkLists()
    const list = turn.gateway.offers.lists[kind]
    turn.resultBytes(turn.era === 'modern' ? list.modern : list.legacy)
  })
}

/** `prompts/get`: found by its shown name and relayed. */
export function getPrompt(turn: EndpointRequest): void {
  const name = turn.message.parameter('name')
  if (name === undefined) throw invalid('params.name must be a string.')
  onceAsked(turn, () => {
    const route = turn.gateway.offers.prompts.get(name)
    if (route === undefined) throw new PublicError('unknown_prompt')
    new Call(turn.gateway, turn, route).start()
  })
}

/** `resources/read`: relayed to the backend that has the URI. */
export function readResource(turn: EndpointRequest): void {
  onceAsked(turn, () => {
    const { backend, uri } = holderOf(turn)
    new Call(turn.gateway, turn, routeTo(backend, encodeHeaderValue(uri))).start()
  })
}

/** `completion/complete`: relayed to the backend of the prompt or resource that it refers to. */
export function complete(turn: EndpointRequest): void {
  const ref = turn.message.params?.['ref']
  if (!isObject(ref)) throw invalid('params.ref must be an object.')
  onceAsked(turn, () => {
    const { prompts } = turn.gateway.offers
    if (ref['type'] !== 'ref/prompt') {
      const { uri } = ref
      const backend = typeof uri === 'string' ? backendOfUri(turn.gateway.offers, uri) : undefined
      if (backend === undefined) throw unknownResource(turn, uri)
      new Call(turn.gateway, turn, routeTo(backend)).start()
      return
    }
    const route = typeof ref['name'] === 'string' ? prompts.get(ref['name']) : undefined
    if (route === undefined) throw new PublicError('unknown_prompt')
    const { rename, backend } = route
    new Call(
      turn.gateway,
      turn,
      routeTo(backend),
      rename === undefined ? turn.message : withPrompt(turn.message, rename),
    ).start()
  })
}

/** What is watched is kept for as long as the session lives. */
const LONGEST_WATCHED = 8192

/** `resources/subscribe` and its opposite: relayed to a backend with sessions; another is watched for the session. */
export function watchResource(turn: EndpointRequest): void {
  onceAsked(turn, () => {
    const { backend, uri } = holderOf(turn)
    if (uri.length > LONGEST_WATCHED)
      throw new PublicError('too_large', { message: `params.uri has more than ${LONGEST_WATCHED} characters.` })
    turn.run(() => watchAt(backend, uri, turn))
  })
}

async function watchAt(backend: Backend, uri: string, turn: EndpointRequest): Promise<void> {
  const { hearing } = turn.gateway.sessions
  const session = turn.session as Session
  const isEnd = turn.message.method === 'resources/unsubscribe'
  const isWatched = session.watched.includes(uri)
  // A backend that can't be reached is the call's affair.
  const isRelayed = !(isEnd && isWatched) && (await isServedInSession(session, backend).catch(() => true))
  if (isRelayed) {
    new Call(turn.gateway, turn, routeTo(backend)).start()
    return
  }
  await (isEnd ? hearing.unwatch(session, uri) : hearing.watch(session, uri))
  if (!isEnd) await untilHeard(session.watchesOf(uri))
  turn.result('{}')
}

/** The backend that has the resource of a request. Throws where there is none. */
export function holderOf(turn: EndpointRequest): { readonly backend: Backend; readonly uri: string } {
  const uri = turn.message.parameter('uri')
  if (uri === undefined) throw invalid('params.uri must be a string.')
  const backend = backendOfUri(turn.gateway.offers, uri)
  if (backend === undefined) throw unknownResource(turn, uri)
  return { backend, uri }
}

const unknownResource = ({ era }: EndpointRequest, uri: unknown): PublicError =>
  new PublicError(era === 'legacy' ? 'resource_not_found' : 'unknown_resource', { data: { uri } })

/** A route on which nothing is renamed. */
export const routeTo = (backend: Backend, nameHeader = '') => ({
  backend,
  tool: '',
  rename: undefined,
  nameHeader,
  paramHeaders: [],
})

/** The request with the prompt's own name (JSON text) in its `ref`, all else as it was. */
function withPrompt(message: Message, name: string): Message {
  const params = message.text.slice(message.paramsStart, message.paramsEnd)
  const ref = editObject(memberText(params, 'ref') as string, { name })
  return withParams(message, editObject(params, { ref }))
}

/** Goes on when all backends have been asked once, or have had their time. */
export function onceAsked(turn: EndpointRequest, next: () => void): void {
  if (turn.gateway.allAsked) next()
  else turn.run(() => turn.gateway.firstLists().then(next))
}

const invalid = (message: string): PublicError => new PublicError('invalid_params', { message })
