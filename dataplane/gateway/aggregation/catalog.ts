import type { GatewayConfig } from '../../config/gateway.ts'
import type { Workflow } from '../../config/workflow/compiled.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { BackendTool } from '../backends/lists/list-page.ts'
import { withoutPage, withPage } from '../mcp/apps.ts'
import { toolForSession } from '../mcp/entry-rules.ts'
import { encodeHeaderValue } from '../mcp/eras.ts'
import { editObject, memberText } from '../mcp/json.ts'
import { computeDigest } from '../pins/definitions.ts'
import { type CompositeTools, compositeTools, type StepTool } from './composite-tools.ts'
import {
  findOverride,
  fitName,
  NO_OVERRIDE,
  otherName,
  type Route,
  readShape,
  type Shape,
  shapedText,
} from './shape.ts'

export interface BuiltCatalog {
  readonly catalog: Catalog
  readonly backends: readonly Backend[]
  /** The tools that each backend had when the catalog was built. */
  readonly tools: ReadonlyMap<Backend, Backend['tools']>
}

/** All tools that are shown at one time. Only they can be called. */
export interface Catalog extends CompositeTools {
  /**
   * The tools that steps of composite tools may call, by their shown names and, also if hidden, by `<backend>.<own
   * name>`. Empty if there are no composite tools.
   */
  readonly stepTools: ReadonlyMap<string, StepTool>
  /** The routes in the order of the lists, where composite tools come last. */
  readonly routes: ReadonlyMap<string, Route>
  /**
   * The routes by the backends' own tool names, which are the only ones that a backend's page knows. They are kept for
   * backends with pages, if they are unambiguous.
   */
  readonly ownNames: ReadonlyMap<string, Route>
  /** The result of `tools/list`, serialized, for each era. */
  readonly legacyList: Buffer
  readonly modernList: Buffer
  /** The lists for clients that support no apps, without the tools that only apps may use. */
  readonly plain: { readonly legacyList: Buffer; readonly modernList: Buffer }
  /** The names that clash, and how each clash was resolved. */
  readonly warnings: readonly string[]
  /** The URIs of the tools' pages, as clients know them. */
  readonly pages: ReadonlyMap<Route, string>
  /** Clashing names that the configuration must resolve (`manual`). Their tools are not shown. */
  readonly conflicts: readonly string[]
}

interface Shown extends StepTool {
  readonly isForModel: boolean
  readonly page: string | undefined
  /** True if the tool is withheld and only reserves its name. */
  readonly isWithheld?: boolean
}

type Shaping = Pick<GatewayConfig, 'role' | 'aggregation' | 'compositeTools'>
type Strategy = 'prefix' | 'priority' | 'manual'
/** The tools of a backend, as shown to everybody or in one session. */
export type ShownTools = Pick<Backend, 'name' | 'tools' | 'runsTasks' | 'callOperationOf'> &
  Partial<Pick<Backend, 'definitions' | 'withheld'>>
type Part = readonly [backend: ShownTools, shape: Shape]

/**
 * Builds the catalog from the backends' tools. The result is deterministic: backends are sorted by name, with the order
 * of `priority` first; tools are sorted by name; a proxy keeps its backend's order.
 */
export function buildCatalog(
  config: Shaping,
  backends: readonly ShownTools[],
  findPage: PageOf = nobody,
  isWithheld?: (workflow: Workflow) => boolean,
): Catalog {
  const strategy = config.aggregation?.conflictResolution ?? 'prefix'
  const clashes = new Clashes(strategy)
  // An approved tool that has changed keeps its name reserved, so that the name does not call another backend's tool. A
  // tool that was never approved does not affect other backends, unless the configuration puts its backend first.
  const taken = strategy === 'priority' ? 'all' : 'pinned'
  const own = sortBackends(config, backends).flatMap(([backend, shape]) => [
    ...listShownTools(backend, shape, config.role === 'proxy', taken),
  ])
  const tools = withoutClashes(
    own.map((tool) => withRightPage(tool, findPage)),
    clashes,
  )
  if (config.role !== 'proxy') tools.sort((a, b) => (a.name < b.name ? -1 : 1))
  const routes = new Map(tools.map(({ name, route }) => [name, route]))
  const stepTools = config.compositeTools === undefined ? new Map() : collectStepTools(config, backends, tools)
  const { composites, compositeProblems } = compositeTools(config.compositeTools, routes, stepTools, isWithheld)
  const forModels = tools.filter(({ isForModel }) => isForModel)
  const all = serializeLists([...tools, ...composites.values()])
  return {
    routes,
    ownNames: collectOwnNames(tools),
    stepTools,
    composites,
    compositeProblems,
    ...all,
    plain: forModels.length === tools.length ? all : serializeLists([...forModels, ...composites.values()]),
    warnings: clashes.warnings,
    pages: new Map(tools.flatMap(({ route, page }) => (page === undefined ? [] : [[route, page] as const]))),
    conflicts: [...clashes.conflicts].map(([name, owners]) => `${name} is a tool of ${owners.join(' and ')}`),
  }
}

/** Returns the tools with unique names. `clashes` decides about tools whose name is already in use. */
function withoutClashes(tools: readonly Shown[], clashes: Clashes): Shown[] {
  const shown = new Map<string, Shown>()
  for (const tool of tools) {
    const name = shown.has(tool.name) ? clashes.findOtherName(tool, shown) : tool.name
    if (name !== undefined) shown.set(name, name === tool.name ? tool : renameTool(tool, name))
  }
  for (const name of clashes.conflicts.keys()) shown.delete(name)
  return [...shown.values()].filter(({ isWithheld }) => isWithheld !== true)
}

/** Returns the URI by which clients read a backend's page; undefined if they can't read that page. */
type PageOf = (backend: string, uri: string) => string | undefined
const nobody: PageOf = () => undefined

/** Returns every tool of every backend, by the names that steps of composite tools use. */
function collectStepTools(
  config: Shaping,
  backends: readonly ShownTools[],
  shown: readonly Shown[],
): Map<string, StepTool> {
  const tools = new Map<string, StepTool>()
  const shownAs = new Map(shown.map((tool) => [formatOwnName(tool), tool]))
  for (const [backend, shape] of sortBackends(config, backends))
    for (const tool of listShownTools(backend, { ...shape, hidden: false, filter: undefined }, false)) {
      const name = formatOwnName(tool)
      if (!tools.has(name)) tools.set(name, shownAs.get(name) ?? tool)
    }
  for (const tool of shown) tools.set(tool.name, tool)
  return tools
}

const formatOwnName = ({ route }: Shown): string => `${route.backend}.${route.tool}`

function serializeLists(tools: readonly { readonly text: string }[]): Catalog['plain'] {
  const list = `"tools":[${tools.map(({ text }) => text).join(',')}]`
  return {
    legacyList: Buffer.from(`{"tools":[${tools.map(({ text }) => toolForSession(text)).join(',')}]}`),
    // Clients must not cache the list, because a change of the configuration changes it within a second and this era
    // has no notification for it yet. The list belongs to one authorization context.
    modernList: Buffer.from(`{"resultType":"complete","ttlMs":0,"cacheScope":"private",${list}}`),
  }
}

/**
 * Replaces the URI of a tool's page by the one that clients use. A page that clients would read from another backend is
 * removed, because that backend must not see this tool's results.
 */
function withRightPage(tool: Shown, findPage: PageOf): Shown {
  const { page: own, route, text } = tool
  if (own === undefined) return tool
  const page = findPage(route.backend, own)
  if (page === own) return tool
  return { ...tool, page, text: page === undefined ? withoutPage(text) : withPage(text, page) }
}

function collectOwnNames(tools: readonly Shown[]): ReadonlyMap<string, Route> {
  const withPages = new Set(tools.flatMap(({ page, route }) => (page === undefined ? [] : [route.backend])))
  const routes = new Map<string, Route>()
  const shared = new Set<string>()
  for (const { route } of tools) {
    if (!withPages.has(route.backend)) continue
    if (routes.has(route.tool)) shared.add(route.tool)
    routes.set(route.tool, route)
  }
  for (const name of shared) routes.delete(name)
  return routes
}

function sortBackends({ role, aggregation }: Shaping, backends: readonly ShownTools[]): Part[] {
  const order =
    aggregation?.conflictResolution === 'priority' ? aggregation.conflictResolutionConfig?.priorityOrder : []
  const rank = ({ name }: ShownTools) => (order?.indexOf(name) ?? -1) + 1 || Number.POSITIVE_INFINITY
  const byRank = (a: ShownTools, b: ShownTools) =>
    rank(a) === rank(b) ? (a.name < b.name ? -1 : 1) : rank(a) - rank(b)
  return [...backends].sort(byRank).map((backend) => [backend, readShape({ role, aggregation }, backend.name)])
}

function* listShownTools(
  backend: ShownTools,
  shape: Shape,
  exact: boolean,
  taken?: 'all' | 'pinned',
): Generator<Shown> {
  if (shape.hidden) return
  const seen = new Set<string>()
  const newName = (key: string): string | undefined => {
    // The second tool with the same name at one backend can't be called.
    if (seen.has(key)) return undefined
    seen.add(key)
    const own = findOverride(shape, key).name ?? key
    if (shape.filter !== undefined && !shape.filter.has(own)) return undefined
    return exact ? own : fitName(shape.prefix + own)
  }
  for (const tool of backend.tools ?? []) {
    const name = newName(tool.key)
    if (name !== undefined) yield showTool(backend, tool, shape, name)
  }
  for (const key of (taken === undefined ? undefined : backend.withheld?.('tools', taken)) ?? []) {
    const name = newName(key)
    if (name !== undefined) yield withheldTool(backend.name, key, name)
  }
}

/** Returns the placeholder of a withheld tool, which reserves its name. */
const withheldTool = (backend: string, tool: string, name: string): Shown => ({
  name,
  text: '{}',
  route: { backend, tool, rename: undefined, nameHeader: '', paramHeaders: [] },
  isForModel: false,
  page: undefined,
  isWithheld: true,
})

function showTool(backend: ShownTools, tool: BackendTool, shape: Shape, shownName: string): Shown {
  const { key: name, paramHeaders, app, isRepeatable } = tool
  const override = findOverride(shape, name)
  const text = backend.runsTasks ? tool.text : withoutTaskSupport(tool.text)
  return {
    name: shownName,
    text: shownName === name && override === NO_OVERRIDE ? text : shapedText(text, shownName, override),
    route: {
      backend: backend.name,
      tool: name,
      rename: shownName === name ? undefined : JSON.stringify(name),
      nameHeader: encodeHeaderValue(name),
      paramHeaders,
      isRepeatable,
      digest: backend.definitions?.pins === undefined ? undefined : computeDigest(tool),
      operation: backend.callOperationOf(name),
    },
    isForModel: app?.isForModel ?? true,
    page: app?.uri,
  }
}

/** Removes task support from a tool whose calls are not run as tasks. Clients rely on this declaration. */
function withoutTaskSupport(text: string): string {
  const execution = text.includes('taskSupport') ? memberText(text, 'execution') : undefined
  if (!execution?.startsWith('{')) return text
  return editObject(text, { execution: editObject(execution, { taskSupport: undefined }) })
}

class Clashes {
  readonly warnings: string[] = []
  /** The backends that have a tool of each clashing name (`manual`). */
  readonly conflicts = new Map<string, string[]>()
  readonly #strategy: Strategy

  constructor(strategy: Strategy) {
    this.#strategy = strategy
  }

  /** Returns the other name under which the tool is shown; undefined if it is not shown. */
  findOtherName({ name, route }: Shown, shown: ReadonlyMap<string, Shown>): string | undefined {
    const { backend, tool } = route
    const holder = shown.get(name)?.route.backend ?? ''
    if (this.#strategy === 'priority') {
      this.warnings.push(`${backend}: ${name} is not shown, ${holder} comes first`)
      return undefined
    }
    if (this.#strategy === 'manual') {
      const owners = this.conflicts.get(name) ?? [holder]
      this.conflicts.set(name, [...owners, backend])
      return undefined
    }
    const other = otherName(name, `${backend}\0${tool}`)
    this.warnings.push(`${backend}: ${name} is taken, shown as ${other}`)
    return shown.has(other) ? undefined : other
  }
}

const renameTool = ({ text, route, ...more }: Shown, name: string): Shown => ({
  ...more,
  name,
  text: shapedText(text, name, {}),
  route: { ...route, rename: JSON.stringify(route.tool) },
})

/** Counts the shown tools of each backend, by its name. Backends without any are left out. */
export function countShownTools({ routes }: Pick<Catalog, 'routes'>): ReadonlyMap<string, number> {
  const shown = new Map<string, number>()
  for (const { backend } of routes.values()) shown.set(backend, (shown.get(backend) ?? 0) + 1)
  return shown
}

/**
 * Returns the catalog to show instead of `next`. If names clash and the configuration must resolve that, the catalog
 * `before` stays, provided that it had no clashes, all of its backends still exist, and definitions that need approval
 * still have it. `backends` holds the existing ones. It is empty until all have been polled: until then the tools of
 * `before` depend on which backends have answered, so it can't replace `next`.
 */
export function goodCatalog(next: BuiltCatalog, before: BuiltCatalog, backends: readonly Backend[]): BuiltCatalog {
  if (next.catalog.conflicts.length === 0 || before.catalog.conflicts.length > 0 || backends.length === 0) return next
  const present = new Set(backends)
  const gone = new Set(before.backends.filter((backend) => !present.has(backend)).map(({ name }) => name))
  const isServed = [...before.catalog.routes.values()].every(({ backend }) => !gone.has(backend))
  return isServed && before.backends.every((backend) => areApproved(backend, before.tools.get(backend))) ? before : next
}

/** Tells whether the tools in `before` are still approved, if the backend needs approval. */
function areApproved({ definitions, tools }: Backend, before: Backend['tools']): boolean {
  if (!definitions.areEnforced || before === undefined) return true
  const approved = new Set(tools)
  return before.every((tool) => approved.has(tool))
}
