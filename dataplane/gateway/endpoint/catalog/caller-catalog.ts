import { type ErrorCode, PublicError } from '../../../server/errors.ts'
import type { Judge } from '../../access/judge.ts'
import { baseOf, type Catalogs, type ListForm } from '../../access/visible-lists.ts'
import type { Catalog, Route } from '../../aggregation/catalog.ts'
import { instructionsOf } from '../../aggregation/prompt-resource-catalog.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { unreachable } from '../../backends/backend/backend.ts'
import type { ListKind } from '../../backends/lists/list-kind.ts'
import type { Destination } from '../../call/asked.ts'
import { answerUnreachable } from '../../call/own-answers.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'

/**
 * What a caller is shown, and may ask for. Every way of the endpoint that leads to a backend asks here. Where policies
 * are in force, what is denied and what is not there are one and the same to callers.
 */

/**
 * Answers with a list as the caller may see it. Throws `backend_unavailable` where a part is missing that has to be
 * there: what is less than the whole would be believed, and a gateway in front of us keeps it for half a minute.
 */
export function answerVisible(
  request: EndpointRequest,
  kind: ListKind,
  { withApps = true, lists }: Answered = {},
): void {
  const { setup, view } = request
  const { missing } = view
  const { judge } = setup
  const shown: ShownList = { kind, lists: lists ?? view, form: { era: request.era, withApps } }
  if (judge === undefined) {
    if (missing.length > 0) answerUnreachable(request, missing)
    else request.resultBytes(baseOf(kind, shown.lists, shown.form))
  } else if (missing.length === 0) answerJudged(request, judge, shown)
  else request.run(() => checkMissing(request, judge).then(() => answerJudged(request, judge, shown)))
}

/** How a list is answered. */
interface Answered {
  /** With tools that are for apps alone; the default. */
  readonly withApps?: boolean
  /** Absent: what the caller's view has. */
  readonly lists?: Catalogs
}

interface ShownList {
  readonly kind: ListKind
  readonly lists: Catalogs
  readonly form: ListForm
}

function answerJudged(request: EndpointRequest, judge: Judge, shown: ShownList): void {
  const list = judgedList(request, judge, shown)
  if (list instanceof Promise) request.run(() => list.then((made) => request.resultBytes(made)))
  else request.resultBytes(list)
}

/**
 * A backend is missing to those who may use something of it, and its name is told to them alone; to everybody, without
 * its name, as long as nobody knows what it has.
 */
async function checkMissing({ caller, view }: EndpointRequest, judge: Judge): Promise<void> {
  const { missing } = view
  const seen = await judge.lists.backends(judge.principalOf(caller), view)
  const known = missing.filter(({ name }) => seen.has(name))
  if (known.length > 0 || missing.some(({ tools }) => tools === undefined)) throw unreachable(known)
}

/**
 * All tools that the caller may see but those for apps alone, as the result of a list. Rejects with `backend_unavailable`
 * where a part is missing that has to be there.
 */
export async function visibleList(request: EndpointRequest): Promise<Buffer> {
  const { setup, view } = request
  const { judge } = setup
  const form = { era: 'legacy', withApps: false } as const
  if (judge === undefined) {
    if (view.missing.length > 0) throw unreachable(view.missing)
    return baseOf('tools', view, form)
  }
  if (view.missing.length > 0) await checkMissing(request, judge)
  return judgedList(request, judge, { kind: 'tools', lists: view, form })
}

/** How all of this is to be used: what the backends say of which the caller sees anything. */
export function instructionsFor({
  setup,
  caller,
  view,
}: EndpointRequest): undefined | string | Promise<undefined | string> {
  const { judge } = setup
  if (judge === undefined) return view.promptsAndResources.instructions
  return judge.lists
    .backends(judge.principalOf(caller), view)
    .then((seen) => instructionsOf(view.backends.filter(({ name }) => seen.has(name))))
}

/** Whether the caller may call the tool; `route` is undefined where there is none of this name. */
export function mayCall(
  request: EndpointRequest,
  name: string,
  route: Route | undefined,
  catalog: Catalog = request.view.catalog,
): boolean {
  return authorize(request, (judge) => judge.mayCall(request.caller, { catalog, name, route }, request.message))
}

/** Throws `forbidden` where the caller may not. */
export function checkMayCall(
  request: EndpointRequest,
  name: string,
  route: Route | undefined,
  catalog?: Catalog,
): void {
  if (!mayCall(request, name, route, catalog)) throw new PublicError('forbidden')
}

/**
 * Whether the caller may still call the tool that a task of its own runs, which it called by this name. Its arguments
 * are gone: what depends on them is judged as if there were none.
 */
export function mayCallPlain(request: EndpointRequest, name: string | undefined): boolean {
  const { catalog } = request.view
  return authorize(request, (judge) => name !== undefined && judge.mayCallPlain(request.caller, catalog, name))
}

/** Throws `forbidden` where the caller may not any more. */
export function checkMayCallPlain(request: EndpointRequest, name: string | undefined): void {
  if (!mayCallPlain(request, name)) throw new PublicError('forbidden')
}

/** Throws `forbidden` where the caller may not get the prompt. */
export function checkMayGet(request: EndpointRequest, name: string): void {
  const { promptsAndResources } = request.view
  if (!authorize(request, (judge) => judge.mayGet(request.caller, promptsAndResources, name, request.message)))
    throw new PublicError('forbidden')
}

/** Throws `forbidden` where the caller may not read the resource. */
export function checkMayRead(request: EndpointRequest, uri: string): void {
  if (!authorize(request, (judge) => judge.mayRead(request.caller, request.view.promptsAndResources, uri)))
    throw new PublicError('forbidden')
}

/** Throws `forbidden` where the caller may not get or read what a completion refers to. */
export function checkMayRefer(request: EndpointRequest, ref: Readonly<Record<string, unknown>>): void {
  const { promptsAndResources } = request.view
  const isPrompt = ref['type'] === 'ref/prompt'
  const id = ref[isPrompt ? 'name' : 'uri']
  const isAllowed = (judge: Judge): boolean =>
    typeof id === 'string' &&
    (isPrompt
      ? judge.mayGetPlain(request.caller, promptsAndResources, id)
      : judge.mayRead(request.caller, promptsAndResources, id))
  if (!authorize(request, isAllowed)) throw new PublicError('forbidden')
}

/** Asks the policies, where there are any; the decision is a step of the request's span, where that has one. */
function authorize({ setup: { judge }, observation }: EndpointRequest, decide: (judge: Judge) => boolean): boolean {
  if (judge === undefined) return true
  if (observation?.isSampled !== true) return decide(judge)
  const from = performance.now()
  const isAllowed = decide(judge)
  observation.step('authorize', from, performance.now(), { 'portico.result': isAllowed ? 'allowed' : 'denied' })
  return isAllowed
}

/** A list as policies show it to the caller; how much of it is a step of the request's span, where that has one. */
function judgedList(
  request: EndpointRequest,
  judge: Judge,
  { kind, lists, form }: ShownList,
): Buffer | Promise<Buffer> {
  const { observation } = request
  const list = () => judge.lists.get(judge.principalOf(request.caller), kind, lists, form)
  if (observation?.isSampled !== true) return list()
  const from = performance.now()
  const told = (made: Buffer): Buffer => {
    const { items, allowed } = judge.lists.countsOf(made) ?? {}
    const details = { 'portico.list.items': items, 'portico.list.allowed': allowed }
    observation.step('authorize', from, performance.now(), details)
    return made
  }
  const made = list()
  return made instanceof Promise ? made.then(told) : told(made)
}

/** The error for what is not there. */
export const unknown = ({ setup }: EndpointRequest, code: ErrorCode, data?: object): PublicError =>
  setup.judge === undefined ? new PublicError(code, data === undefined ? {} : { data }) : new PublicError('forbidden')

/**
 * Where a route of a catalog leads for the caller of a request: to the caller's own backend of that name, or to the one
 * that is everybody's. Throws `backend_unavailable` where there is none any more.
 */
export function destinationOf({ view }: EndpointRequest, route: Route): Destination {
  const backend = view.backendNamed(route.backend)
  if (backend === undefined) throw new PublicError('backend_unavailable')
  return { backend, route }
}

/** At a backend, where nothing is renamed. `nameHeader`: what is asked for, as a header has it. */
export const at = (backend: Backend, nameHeader = '', tool = ''): Destination => ({
  backend,
  route: { backend: backend.name, tool, rename: undefined, nameHeader, paramHeaders: [] },
})
