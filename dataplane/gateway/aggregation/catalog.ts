import type { GatewayConfig } from '../../config/gateway.ts'
import type { Backend } from '../backends/backend.ts'
import { encodeHeaderValue } from '../mcp/headers.ts'
import type { ParamHeader } from '../mcp/param-headers.ts'
import { fitName, otherName } from './names.ts'
import { NO_OVERRIDE, overrideOf, type Shape, shapedText, shapeOf } from './shape.ts'

/** Where a call of a shown tool goes. */
export interface Route {
  readonly backend: Backend
  /** The backend's own name for the tool. */
  readonly tool: string
  /** That name as JSON text; undefined where it is the shown one. */
  readonly rename: string | undefined
  /** That name as a header value. */
  readonly nameHeader: string
  readonly paramHeaders: readonly ParamHeader[]
}

/** Everything that is shown at one time. What isn't in it can't be called. */
export interface Catalog {
  readonly routes: ReadonlyMap<string, Route>
  /** The result of `tools/list`, serialized, for each era. */
  readonly legacyList: Buffer
  readonly modernList: Buffer
  /** Names that two tools would have had. */
  readonly warnings: readonly string[]
}

interface Shown {
  readonly name: string
  readonly text: string
  readonly route: Route
}

type Part = readonly [backend: Backend, shape: Shape]

/**
 * Builds what is shown from what the backends have shown. Deterministic: backends count in the order of their names,
 * tools are sorted by theirs; a proxy keeps its backend's order.
 */
export function buildCatalog(
  config: Pick<GatewayConfig, 'role' | 'aggregation'>,
  backends: readonly Backend[],
): Catalog {
  const shown = new Map<string, Shown>()
  const warnings: string[] = []
  const parts: Part[] = backends.map((backend) => [backend, shapeOf(config, backend.name)])
  for (const [backend, shape] of parts.sort(byName)) {
    for (const tool of shownTools(backend, shape, config.role === 'proxy')) {
      const place = placeOf(tool, shown, warnings)
      if (place !== undefined) shown.set(place, place === tool.name ? tool : renamed(tool, place))
    }
  }
  const tools = [...shown.values()]
  if (config.role !== 'proxy') tools.sort((a, b) => (a.name < b.name ? -1 : 1))
  const list = `"tools":[${tools.map(({ text }) => text).join(',')}]`
  return {
    routes: new Map(tools.map(({ name, route }) => [name, route])),
    legacyList: Buffer.from(`{${list}}`),
    // What is shown changes with the configuration within a second, and no notice of it is sent in this era yet; so a
    // client may not keep it. It is one authorization context's view.
    modernList: Buffer.from(`{"resultType":"complete","ttlMs":0,"cacheScope":"private",${list}}`),
    warnings,
  }
}

const byName = ([a]: Part, [b]: Part): number => (a.name < b.name ? -1 : 1)

function* shownTools(backend: Backend, shape: Shape, exact: boolean): Generator<Shown> {
  if (shape.hidden) return
  const seen = new Set<string>()
  for (const { name, text, paramHeaders } of backend.tools ?? []) {
    // A backend's second tool of one name can't be called.
    if (seen.has(name)) continue
    seen.add(name)
    const override = overrideOf(shape, name)
    const own = override.name ?? name
    if (shape.filter !== undefined && !shape.filter.has(own)) continue
    const shownName = exact ? own : fitName(shape.prefix + own)
    yield {
      name: shownName,
      text: shownName === name && override === NO_OVERRIDE ? text : shapedText(text, shownName, override),
      route: {
        backend,
        tool: name,
        rename: shownName === name ? undefined : JSON.stringify(name),
        nameHeader: encodeHeaderValue(name),
        paramHeaders,
      },
    }
  }
}

/** The name under which a tool is shown: its own, or another where that is taken. */
function placeOf(tool: Shown, shown: ReadonlyMap<string, Shown>, warnings: string[]): string | undefined {
  if (!shown.has(tool.name)) return tool.name
  const { backend, tool: own } = tool.route
  const name = otherName(tool.name, `${backend.name}\0${own}`)
  warnings.push(`${backend.name}: ${tool.name} is taken, shown as ${name}`)
  return shown.has(name) ? undefined : name
}

const renamed = ({ text, route }: Shown, name: string): Shown => ({
  name,
  text: shapedText(text, name, {}),
  route: { ...route, rename: JSON.stringify(route.tool) },
})
