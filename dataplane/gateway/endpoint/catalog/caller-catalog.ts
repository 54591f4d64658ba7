import { type ErrorCode, PublicError } from '../../../server/errors.ts'
import type { Authorizer } from '../../access/authorizer.ts'
import { type Catalogs, findBase, type ListForm } from '../../access/visible-lists.ts'
import type { Catalog } from '../../aggregation/catalog.ts'
import { joinInstructions } from '../../aggregation/prompt-resource-catalog.ts'
import type { Route } from '../../aggregation/shape.ts'
import type { UriNames } from '../../aggregation/uri-names.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { unreachable } from '../../backends/backend/backend.ts'
import type { ListKind } from '../../backends/lists/list-kind.ts'
import type { Destination } from '../../call/call-request.ts'
import { answerUnreachable } from '../../call/own-answers.ts'
import { findResource } from '../../core/view.ts'
import type { EndpointExchange, EndpointRequest } from '../incoming/endpoint-exchange.ts'

/**
 * The items that a caller sees and may use. All paths from the endpoint to a backend are authorized here. If policies
 * are in force, callers can't distinguish a denied item from a missing one.
 */

/**
 * Answers with a list as the caller may see it. Throws `backend_unavailable` if a required part is missing, because
 * clients would treat a partial list as complete, and a gateway in front of us would cache it for half a minute.
 */
export function answerVisible(
  request: EndpointRequest,
  kind: ListKind,
  { withApps = true, lists }: Answered = {},
): void {
  const { setup, view } = request
  const { missing } = view
  const { authorizer } = setup
  const shown: ShownList = { kind, lists: lists ?? view, form: { era: request.era, withApps } }
  if (authorizer === undefined) {
    if (missing.length > 0) answerUnreachable(request, missing)
    else request.resultBytes(findBase(kind, shown.lists, shown.form))
  } else if (missing.length === 0) answerFiltered(request, authorizer, shown)
  else request.run(() => checkMissing(request, authorizer).then(() => answerFiltered(request, authorizer, shown)))
}

interface Answered {
  /** Includes tools that are only for apps; true by default. */
  readonly withApps?: boolean
  /** The catalogs whose items are listed; absent: those of the caller's view. */
  readonly lists?: Catalogs
}

interface ShownList {
  readonly kind: ListKind
  readonly lists: Catalogs
  readonly form: ListForm
}

function answerFiltered(request: EndpointRequest, authorizer: Authorizer, shown: ShownList): void {
  const list = filterList(request, authorizer, shown)
  if (list instanceof Promise) request.run(() => list.then((made) => request.resultBytes(made)))
  else request.resultBytes(list)
}

/**
 * Throws if a backend is missing that the caller may use. Only callers who may use it see its name. While a backend's
 * items are unknown, it counts as missing for all callers, and its name is not shown.
 */
async function checkMissing({ caller, view }: EndpointRequest, authorizer: Authorizer): Promise<void> {
  const { missing } = view
  const seen = await authorizer.lists.backends(authorizer.principalOf(caller), view)
  const known = missing.filter(({ name }) => seen.has(name))
  if (known.length > 0 || missing.some(({ tools }) => tools === undefined)) throw unreachable(known)
}

/**
 * Returns all tools that the caller may see, except those only for apps, as the result of a list. Rejects with
 * `backend_unavailable` if a required part is missing.
 */
export async function visibleList(request: EndpointRequest): Promise<Buffer> {
  const { setup, view } = request
  const { authorizer } = setup
  const form = { era: 'legacy', withApps: false } as const
  if (authorizer === undefined) {
    if (view.missing.length > 0) throw unreachable(view.missing)
    return findBase('tools', view, form)
  }
  if (view.missing.length > 0) await checkMissing(request, authorizer)
  return filterList(request, authorizer, { kind: 'tools', lists: view, form })
}

/** Returns the instructions of the backends of which the caller sees any item. */
export function instructionsFor({
  setup,
  caller,
  view,
}: EndpointRequest): undefined | string | Promise<undefined | string> {
  const { authorizer } = setup
  if (authorizer === undefined)
    return view.backends.some(({ definitions }) => definitions.areEnforced)
      ? joinInstructions(view.backends)
      : view.promptsAndResources.instructions
  return authorizer.lists
    .backends(authorizer.principalOf(caller), view)
    .then((seen) => joinInstructions(view.backends.filter(({ name }) => seen.has(name))))
}

/** Throws `forbidden` if the caller may not call the tool; `route` is undefined if no tool has this name. */
export function checkMayCall(
  request: EndpointRequest,
  name: string,
  route: Route | undefined,
  catalog?: Catalog,
): void {
  demand(request, (authorizer) => {
    const tool = { catalog: catalog ?? request.view.catalog, name, route }
    return authorizer.mayCall(request.caller, tool, request.message)
  })
}

/**
 * Throws `insufficient_scope` if the caller's token lacks a scope that these tools need. The challenge also names the
 * scopes that the token has, because clients request exactly the scopes in it. To reveal nothing, call this only for
 * tools that exist and that the caller may call.
 */
export function checkScopes(request: EndpointRequest, tools: readonly string[]): void {
  const { setup, caller, req } = request
  const lacking = setup.scopeRules?.lacking(caller, tools)
  if (lacking === undefined) return
  const { held, missing } = lacking
  const scopes = new Set([...(setup.config.incomingAuth.oidc?.scopes ?? []), ...held, ...missing])
  const { headers } = setup.authenticate.stepUp(req, [...scopes])
  throw new PublicError('insufficient_scope', {
    message: `The token lacks ${missing.length === 1 ? 'the scope' : 'the scopes'} ${missing.join(', ')}.`,
    data: { held, missing },
    ...(headers && { headers }),
  })
}

/**
 * Tells whether the caller may still call the tool of its own task, which it called by this name. The arguments are no
 * longer known, so policies are evaluated without arguments.
 */
export function mayCallPlain(request: EndpointRequest, name: string | undefined): boolean {
  const { catalog } = request.view
  return authorize(
    request,
    (authorizer) => name !== undefined && authorizer.mayCallPlain(request.caller, catalog, name),
  )
}

export function checkMayCallPlain(request: EndpointRequest, name: string | undefined): void {
  if (!mayCallPlain(request, name)) throw new PublicError('forbidden')
  if (name !== undefined) checkScopes(request, [name])
}

export function checkMayGet(request: EndpointRequest, name: string): void {
  const { promptsAndResources } = request.view
  demand(request, (authorizer) => authorizer.mayGet(request.caller, promptsAndResources, name, request.message))
}

export const mayRead = (request: EndpointRequest, uri: string): boolean =>
  authorize(request, (authorizer) => authorizer.mayRead(request.caller, request.view.promptsAndResources, uri))

export function checkMayRead(request: EndpointRequest, uri: string): void {
  if (!mayRead(request, uri)) throw new PublicError('forbidden')
}

/**
 * Tells whether the caller of a stream may read a resource now: policies may have changed since the stream was opened,
 * and the catalog gate may have withdrawn the backend.
 */
export function mayStillRead({ gateway, view, caller }: EndpointExchange, uri: string): boolean {
  if (gateway.gated.enforced !== undefined && findResource(view, uri) === undefined) return false
  const { authorizer } = gateway.setup
  return authorizer === undefined || authorizer.mayRead(caller, view.promptsAndResources, uri)
}

/** Throws `forbidden` if the caller may not get or read the item that a completion refers to. */
export function checkMayRefer(request: EndpointRequest, ref: Readonly<Record<string, unknown>>): void {
  const { promptsAndResources } = request.view
  const isPrompt = ref['type'] === 'ref/prompt'
  const id = ref[isPrompt ? 'name' : 'uri']
  demand(
    request,
    (authorizer) =>
      typeof id === 'string' &&
      (isPrompt
        ? authorizer.mayGetPlain(request.caller, promptsAndResources, id)
        : authorizer.mayRead(request.caller, promptsAndResources, id)),
  )
}

/** Throws `forbidden` if there are policies and they deny it. */
function demand(request: EndpointRequest, decide: (authorizer: Authorizer) => boolean): void {
  if (!authorize(request, decide)) throw new PublicError('forbidden')
}

/** Evaluates the policies, if there are any. The decision is recorded in the request's span, if there is one. */
function authorize(
  { setup: { authorizer }, observation }: EndpointRequest,
  decide: (authorizer: Authorizer) => boolean,
): boolean {
  if (authorizer === undefined) return true
  if (observation?.isSampled !== true) return decide(authorizer)
  const from = performance.now()
  const isAllowed = decide(authorizer)
  observation.step('authorize', from, performance.now(), { 'portico.result': isAllowed ? 'allowed' : 'denied' })
  return isAllowed
}

/** Filters a list by the policies. Its size is recorded in the request's span, if there is one. */
function filterList(
  request: EndpointRequest,
  authorizer: Authorizer,
  { kind, lists, form }: ShownList,
): Buffer | Promise<Buffer> {
  const { observation } = request
  const list = () => authorizer.lists.get(authorizer.principalOf(request.caller), kind, lists, form)
  if (observation?.isSampled !== true) return list()
  const from = performance.now()
  const told = (made: Buffer): Buffer => {
    const { items, allowed } = authorizer.lists.countsOf(made) ?? {}
    const details = { 'portico.list.items': items, 'portico.list.allowed': allowed }
    observation.step('authorize', from, performance.now(), details)
    return made
  }
  const made = list()
  return made instanceof Promise ? made.then(told) : told(made)
}

/** Returns the error for an item that does not exist. */
export const unknown = ({ setup }: EndpointRequest, code: ErrorCode, data?: object): PublicError =>
  setup.authorizer === undefined
    ? new PublicError(code, data === undefined ? {} : { data })
    : new PublicError('forbidden')

/**
 * Returns the destination of a route for the caller of a request: the caller's own backend with that name, or the
 * shared one. Throws `backend_unavailable` if it no longer exists.
 */
export function findDestination({ view }: EndpointRequest, route: Route): Destination {
  const backend = view.findBackend(route.backend)
  if (backend === undefined) throw new PublicError('backend_unavailable')
  return { backend, route, names: view.promptsAndResources.names?.get(route.backend) }
}

/** Returns a destination at a backend without renaming. `nameHeader`: the item's name as a header value. */
export const at = (backend: Backend, nameHeader = '', tool = '', names?: UriNames): Destination => ({
  backend,
  names,
  route: { backend: backend.name, tool, rename: undefined, nameHeader, paramHeaders: [] },
})
