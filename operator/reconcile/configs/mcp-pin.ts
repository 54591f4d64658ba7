import {
  type KindName,
  type MCPPin,
  type MCPRemoteProxy,
  type MCPServer,
  type MCPServerEntry,
  mcpGroup,
  mcpPin,
  mcpServerEntry,
  type VirtualMCPServer,
} from '../../../crds/index.ts'
import { kinds } from '../../../crds/kinds/index.ts'
import { PIN_LISTS, type PinningMode, pinLimits } from '../../../crds/settings/gateway/pinning.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { byKindAndName } from '../../model/index.ts'
import type { ClusterView, DefinitionsObservation, ObjectName } from '../../model/view.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import {
  type Conditions,
  type ExplainedPlan,
  formatProblems,
  type PlannedEvent,
  type Problems,
  type ReconcileContext,
  readConditions,
  startConditions,
  startProblems,
} from '../outcome/plan.ts'
import { type Resolver, startResolver } from '../references/references.ts'
import { buildConfigStatus, setReadiness } from './config.ts'

type Spec = MCPPin['spec']

/** The bytes of specs as JSON. A spec of a view does not change, and many plans look at it. */
const sizes = new WeakMap<Spec, number>()

function measureSpec(spec: Spec): number {
  let bytes = sizes.get(spec)
  if (bytes === undefined) sizes.set(spec, (bytes = Buffer.byteLength(JSON.stringify(spec))))
  return bytes
}

/** Finds what is wrong with pins beyond their schema. The schema can't bound the size of the whole. */
function checkPins({ spec }: MCPPin, problems: Problems): void {
  const bytes = measureSpec(spec)
  if (bytes > pinLimits.bytes)
    problems.add('Valid', 'PinsInvalid', {
      message: `the spec has ${bytes} bytes; at most ${pinLimits.bytes} are read: use several MCPPins`,
    })
  const items = PIN_LISTS.reduce((sum, name) => sum + (spec[name]?.length ?? 0), 0)
  if (items > pinLimits.items)
    problems.add('Valid', 'PinsInvalid', {
      message: `the spec has ${items} pins; at most ${pinLimits.items} are read: use several MCPPins`,
    })
}

/** Returns the MCPPins of a server, by name. One that is being deleted approves nothing any more. */
const findPins = (view: ClusterView, { kind, namespace, name }: Target): readonly MCPPin[] =>
  view.referrers(kinds[kind], namespace, name).flatMap((referrer) => {
    const pin = referrer.kind === 'MCPPin' ? view.get(mcpPin, namespace, referrer.name) : undefined
    return pin === undefined || pin.metadata.deletionTimestamp !== undefined ? [] : [pin]
  })

interface Target {
  readonly kind: Extract<KindName, Spec['targetRef']['kind']>
  readonly namespace: string
  readonly name: string
}

/** Lists the objects that compare definitions with the pins: the server, and for an entry the gateways that call it. */
function listPinUsers(view: ClusterView, { kind, namespace, name }: Target): readonly ObjectName[] {
  const target = view.get(kinds[kind], namespace, name)
  if (target === undefined) return []
  const entry = kind === 'MCPServerEntry' ? view.get(mcpServerEntry, namespace, name) : undefined
  const gateways =
    entry === undefined
      ? []
      : view.referrers(mcpGroup, namespace, entry.spec.groupRef.name).filter((one) => one.kind === 'VirtualMCPServer')
  return [{ kind, name }, ...gateways].sort(byKindAndName)
}

/** Plans an MCPPin: whether it is valid, whether its server exists, and which objects use it. */
export function reconcileMcpPin(object: MCPPin, view: ClusterView, context: ReconcileContext): ExplainedPlan {
  const { namespace } = object.metadata
  const { kind, name } = object.spec.targetRef
  const resolver = startResolver(view, namespace)
  const { problems } = resolver
  checkPins(object, problems)
  resolver.object(kinds[kind], name)
  const conditions = startConditions(object, context.now)
  const events = setReadiness(problems, conditions)
  const users = listPinUsers(view, { kind, namespace, name })
  return {
    children: [],
    status: buildConfigStatus(object, conditions, users, context.now),
    events,
    finalizer: false,
    problems: problems.all(),
  }
}

type BackendPinning = NonNullable<BackendConfig['pinning']>
type Pins = NonNullable<BackendPinning['pins']>
type Unlisted = NonNullable<Pins['unlisted']>

/** A member of a gateway. */
type PinnedServer = MCPServer | MCPRemoteProxy | MCPServerEntry

export type GatewayPinning = NonNullable<NonNullable<VirtualMCPServer['spec']['config']>['pinning']>

/** Returns the pinning of a gateway by its settings, with defaults. */
export const readGatewayPinning = (config: VirtualMCPServer['spec']['config']): GatewayPinning =>
  config?.pinning ?? { mode: 'disabled', unpinnedBackends: 'withhold' }

const STRICTEST_LAST = ['disabled', 'report', 'enforce'] as const
const STRICTEST_FIRST = ['withhold', 'bare', 'allow'] as const

export const readPinningMode = ({ spec }: PinnedServer): PinningMode => spec.pinning?.mode ?? 'disabled'

const chooseStricter = (one: PinningMode, other: PinningMode): PinningMode =>
  STRICTEST_LAST.indexOf(one) > STRICTEST_LAST.indexOf(other) ? one : other

type PinnedItem = Readonly<Record<string, unknown>> & { readonly digests: readonly string[] }

/** Returns the digests of items by their names; undefined if there are none. */
function mergeDigests(items: readonly PinnedItem[], field: string) {
  const found = Map.groupBy(items, (item) => String(item[field]))
  if (found.size === 0) return undefined
  const merged = [...found].map(([name, same]) => [name, [...new Set(same.flatMap(({ digests }) => digests))].sort()])
  return sortedKeys(Object.fromEntries(merged))
}

/** Returns the strictest setting of all MCPPins for each list; absent where none has one. */
function chooseStrictest(all: readonly MCPPin['spec'][]): Unlisted | undefined {
  const names = ['tools', 'prompts', 'resources', 'resourceTemplates', 'instructions', 'pages'] as const
  const said = names.flatMap((name) => {
    const answers = all.flatMap(({ unlisted }) => unlisted?.[name] ?? [])
    const first = STRICTEST_FIRST.find((answer) => answers.includes(answer as never))
    return first === undefined ? [] : [[name, first]]
  })
  return said.length === 0 ? undefined : (Object.fromEntries(said) as Unlisted)
}

/** The lists of pins, each with the field that names an item. */
const NAMED_BY = {
  tools: 'name',
  prompts: 'name',
  resources: 'uri',
  resourceTemplates: 'uriTemplate',
  pages: 'uri',
} as const

/** Joins the pins of several MCPPins of one server: what any of them approves is approved. */
function joinPins(pins: readonly MCPPin[]): Pins {
  const all = pins.map(({ spec }) => spec)
  const instructions = [...new Set(all.flatMap((spec) => spec.instructions?.digests ?? []))].sort()
  const lists = Object.entries(NAMED_BY).map(([list, field]) => {
    const items = all.flatMap((spec) => (spec[list as 'tools'] ?? []) as readonly PinnedItem[])
    return [list, mergeDigests(items, field)] as const
  })
  return {
    ...(instructions.length === 0 ? {} : { instructions }),
    ...Object.fromEntries([...lists, ['unlisted', chooseStrictest(all)]].filter(([, list]) => list !== undefined)),
  }
}

/**
 * Returns the approved definitions of a server; undefined if no MCPPin names it. An invalid MCPPin becomes a problem,
 * so that pods keep their last pins.
 */
function readPins(
  { kind, metadata: { namespace, name } }: PinnedServer,
  { view, problems }: Resolver,
): Pins | undefined {
  const found = findPins(view, { kind, namespace, name })
  for (const pin of found) {
    const inner = startProblems()
    checkPins(pin, inner)
    if (inner.none) continue
    const about = { kind: 'MCPPin', name: pin.metadata.name }
    problems.add('ReferencesResolved', 'PinsInvalid', {
      about,
      message: `MCPPin ${JSON.stringify(about.name)}: ${formatProblems(inner.all())}`,
    })
  }
  return found.length === 0 ? undefined : joinPins(found)
}

const withPins = (mode: 'report' | 'enforce', pins: Pins | undefined): { readonly pinning: BackendPinning } => ({
  pinning: { mode, ...(pins === undefined ? {} : { pins }) },
})

/** Builds the pinning of a proxy's backend: nothing unless the server's own object asks for it. */
export function buildServerPinning(server: PinnedServer, resolver: Resolver): Pick<BackendConfig, 'pinning'> {
  const mode = readPinningMode(server)
  return mode === 'disabled' ? {} : withPins(mode, readPins(server, resolver))
}

/**
 * Builds the pinning of a gateway's backend. A proxy compares the server's own bytes and may change definitions
 * afterwards, so an enforcing gateway only asks that each answer says that pins are enforced. Definitions of an
 * MCPServerEntry arrive at the gateway: the stricter mode counts. A member without pins follows `unpinnedBackends`.
 */
export function buildMemberPinning(
  member: PinnedServer,
  { mode: ofGateway, unpinnedBackends }: GatewayPinning,
  resolver: Resolver,
): Pick<BackendConfig, 'pinning' | 'enforcesPins'> {
  const own = readPinningMode(member)
  const unpinned = (mode: PinningMode) => (mode === 'disabled' ? {} : withPins(mode, undefined))
  if (member.kind !== 'MCPServerEntry') {
    if (ofGateway === 'disabled' || unpinnedBackends === 'allow') return {}
    if (chooseStricter(own, ofGateway) !== own) return unpinned(ofGateway)
    return ofGateway === 'enforce' ? { enforcesPins: true } : {}
  }
  const mode = chooseStricter(own, ofGateway)
  if (mode === 'disabled') return {}
  const pins = readPins(member, resolver)
  if (pins !== undefined) return withPins(mode, pins)
  return own !== 'enforce' && unpinnedBackends === 'allow' ? unpinned(own) : unpinned(mode)
}

const TYPE = 'DefinitionsApproved'

/** Reasons that come from reports of pods. They stay until the pods report again. */
const OF_PODS: ReadonlySet<string> = new Set(['Withheld', 'AllApproved', 'Reported'])

const NAMED = 10

/** The comparison of one server's definitions with its pins: the mode, and what pods report. */
export interface PinState {
  readonly name: string
  readonly mode: PinningMode
  /** True if some MCPPin names the server, as far as the gateway or proxy uses it. */
  readonly isPinned: boolean
  readonly seen: DefinitionsObservation | undefined
}

const sum = (all: readonly PinState[], field: 'approved' | 'withheld' | 'reported' | 'missing') =>
  all.reduce((total, { seen }) => total + (seen?.[field] ?? 0), 0)

/** Formats counts and the first names, without digests, so that a text that changes often does not write a status each time. */
function formatMessage(all: readonly PinState[], isOfGateway: boolean): string {
  const names = all.flatMap(({ name, seen }) =>
    (seen?.names ?? []).map((found) => (isOfGateway ? `${name}: ${found}` : found)),
  )
  const shown = [...new Set(names)].sort().slice(0, NAMED)
  const counts = (['approved', 'withheld', 'reported', 'missing'] as const).map(
    (field) => `${sum(all, field)} ${field}`,
  )
  return `${counts.join(', ')}${shown.length === 0 ? '' : `: ${shown.join(', ')}`}`
}

/** Sets the condition of servers whose definitions are compared with pins. */
function setCondition(
  held: readonly PinState[],
  { isOfGateway, problems }: { readonly isOfGateway: boolean; readonly problems: Problems },
  conditions: Conditions,
): void {
  const invalid = problems.all().filter(({ reason }) => reason === 'PinsInvalid')
  if (invalid.length > 0) {
    conditions.set(TYPE, 'False', 'PinsInvalid', invalid.map(({ message }) => message).join('; '))
    return
  }
  const unpinned = held.filter(({ mode, isPinned }) => mode === 'enforce' && !isPinned)
  const others = held.filter(({ mode, isPinned }) => mode === 'enforce' && isPinned)
  const message = formatMessage(held, isOfGateway)
  if (sum(others, 'withheld') > 0) {
    conditions.set(TYPE, 'False', 'Withheld', message)
    return
  }
  if (unpinned.length > 0) {
    const names = unpinned.slice(0, NAMED).map(({ name }) => JSON.stringify(name))
    const rest = unpinned.length > NAMED ? ` and ${unpinned.length - NAMED} more` : ''
    const whose = isOfGateway ? ` of ${names.join(', ')}${rest}` : ''
    conditions.set(TYPE, 'False', 'Unpinned', `no definition${whose} is approved, so nothing is listed`)
    return
  }
  if (held.some(({ seen }) => seen === undefined)) {
    conditions.keep(TYPE)
    if (!OF_PODS.has(conditions.get(TYPE)?.reason ?? ''))
      conditions.set(TYPE, 'Unknown', 'NotObserved', 'no pod has reported on the definitions yet')
    return
  }
  conditions.set(TYPE, 'True', others.length === 0 ? 'Reported' : 'AllApproved', message)
}

/** Sets `DefinitionsApproved` unless all modes are `disabled`. `isOfGateway`: messages name the servers. */
export function reportDefinitions(
  held: readonly PinState[],
  place: { readonly isOfGateway: boolean; readonly problems: Problems },
  conditions: Conditions,
): void {
  const active = held.filter(({ mode }) => mode !== 'disabled')
  if (active.length > 0) setCondition(active, place, conditions)
}

/** Returns the event of a transition: another definition is withheld, or everything is approved again. */
export function buildDefinitionEvents(
  object: Parameters<typeof readConditions>[0],
  conditions: Conditions,
): readonly PlannedEvent[] {
  const before = readConditions(object).find(({ type }) => type === TYPE)
  const now = conditions.get(TYPE)
  const wasWithheld = before?.status === 'False'
  if (now?.status === 'False' && now.reason !== 'PinsInvalid') {
    if (wasWithheld && before.reason === now.reason && before.message === now.message) return []
    return [{ type: 'Warning', reason: 'DefinitionWithheld', message: now.message, condition: TYPE }]
  }
  if (now?.status === 'True' && wasWithheld)
    return [{ type: 'Normal', reason: 'DefinitionApproved', message: now.message, condition: TYPE }]
  return []
}
