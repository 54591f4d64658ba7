import { type VirtualMCPServer, virtualMcpCompositeToolDefinition } from '../../../crds/index.ts'
import {
  calledTools,
  countValues,
  TOO_MANY_VALUES,
  unknownTools,
  workflowFindings,
} from '../../../dataplane/config/check/workflows.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { workflowLimits } from '../../../dataplane/config/workflow/limits.ts'
import { byText } from '../../model/index.ts'
import { canonicalJson, sortedKeys } from '../../render/object/canonical.ts'
import { checkDefinition } from '../configs/virtual-mcp-composite-tool-definition.ts'
import { type Conditions, formatProblem } from '../outcome/plan.ts'
import { type Resolver, startResolver } from '../references/references.ts'

type Settings = NonNullable<VirtualMCPServer['spec']['config']>
type Definition = NonNullable<GatewayConfig['compositeTools']>[number]

export interface CompositeTools {
  readonly served: Definition[]
  /** The definitions that are not offered in their current form, with the reasons, for people. */
  readonly refused: readonly string[]
  /** True if some of those are not offered at all. */
  readonly isIncomplete: boolean
  /** The served definitions, by the names of their objects: the last good ones, for the gateway's status. */
  readonly lastGood: LastGood
}

/** The definitions that were last served; JSON texts by the names of their objects. */
type LastGood = Readonly<Record<string, string>>

/** The characters of all definitions that a status keeps. One that doesn't fit isn't served while it is invalid. */
const MOST_KEPT = 64 * 1024

/** Names of the composite tools so far, and the tools that they call. A new one may neither have nor call these names. */
interface Taken {
  readonly names: Set<string>
  readonly called: Set<string>
  /** The values in them. */
  values: number
}

function take(definition: Definition, taken: Taken): void {
  taken.names.add(definition.name)
  for (const { tool } of calledTools(definition)) taken.called.add(tool)
  taken.values += countValues([definition])
}

/** Returns why a valid definition can't be offered beside the others, which stay unaffected. */
function findClash(definition: Definition, { names, called, values }: Taken): string | undefined {
  const { name } = definition
  if (names.has(name)) return `/spec/name: another composite tool has the name ${JSON.stringify(name)}`
  if (called.has(name))
    return `/spec/name: another composite tool calls ${JSON.stringify(name)}, and composite tools can’t call each other`
  if (values + countValues([definition]) > workflowLimits.values)
    return `/spec: it and the other composite tools of the gateway ${TOO_MANY_VALUES}`
  const nested = calledTools(definition).find(({ tool }) => names.has(tool))
  return nested && `/spec${nested.pointer}: is a composite tool: composite tools can’t call each other`
}

const MISSING = 'it is missing'

/** Returns the workflow of the named definition, or why it is unusable. Its own status lists all its problems. */
function findDefinition(name: string, { view, namespace }: Resolver): Definition | string {
  const object = view.get(virtualMcpCompositeToolDefinition, namespace, name)
  if (!object) return MISSING
  const resolver = startResolver(view, namespace)
  checkDefinition(object, resolver)
  const [first, ...others] = resolver.problems.all()
  if (first === undefined) return object.spec
  return formatProblem(first) + (others.length === 0 ? '' : ` (and ${others.length} more)`)
}

/** Sorts the named definitions: those that are served unchanged come first, so that no change of one displaces them. */
const inOrder = (refs: readonly { readonly name: string }[], texts: LastGood, resolver: Resolver) =>
  refs
    .map(({ name }) => ({ name, found: findDefinition(name, resolver) }))
    .map((one) => ({ ...one, isNew: typeof one.found === 'string' || canonicalJson(one.found) !== texts[one.name] }))
    .sort((a, b) => Number(a.isNew) - Number(b.isNew) || byText(a.name, b.name))

/** Returns the last good definition of a name, if it can be offered beside the names taken. */
function findKept(text: string | undefined, taken: Taken): Definition | undefined {
  const kept = text === undefined ? undefined : (JSON.parse(text) as Definition)
  return kept === undefined || findClash(kept, taken) !== undefined ? undefined : kept
}

/**
 * Collects the composite tools of a gateway. A named definition that is invalid or conflicts is reported, and its last
 * good version serves; without one it is left out. Of two new ones the first by object name wins.
 */
export function collectCompositeTools(
  { compositeTools = [], compositeToolRefs = [] }: Settings,
  before: LastGood,
  resolver: Resolver,
): CompositeTools {
  for (const { pointer, message } of workflowFindings({ compositeTools, role: 'gateway' }))
    resolver.problems.refuse(`/spec/config${pointer}`, message, ': ')
  const served: Definition[] = [...compositeTools]
  const taken: Taken = { names: new Set(), called: new Set(), values: 0 }
  for (const definition of compositeTools) take(definition, taken)
  const refused: { readonly name: string; readonly text: string }[] = []
  const lastGood: Record<string, string> = {}
  let isIncomplete = false
  let kept = 0
  const serve = (name: string, definition: Definition) => {
    take(definition, taken)
    served.push(definition)
    const text = canonicalJson(definition)
    kept += text.length
    if (kept <= MOST_KEPT) lastGood[name] = text
  }
  for (const { name, found } of inOrder(compositeToolRefs, before, resolver)) {
    const problem = typeof found === 'string' ? found : findClash(found, taken)
    if (typeof found !== 'string' && problem === undefined) {
      serve(name, found)
      continue
    }
    const last = problem === MISSING ? undefined : findKept(before[name], taken)
    if (last === undefined) isIncomplete = true
    else serve(name, last)
    const what = last === undefined ? 'is left out' : 'is served as it was before'
    refused.push({ name, text: `VirtualMCPCompositeToolDefinition ${JSON.stringify(name)} ${what}: ${problem}` })
  }
  const texts = refused.sort((a, b) => byText(a.name, b.name)).map(({ text }) => text)
  return {
    served: sortedKeys(served.sort((a, b) => byText(a.name, b.name))),
    refused: texts,
    isIncomplete,
    lastGood: sortedKeys(lastGood),
  }
}

/**
 * Sets `CompositeToolsReady`, if there are any, and `CompositeToolWarning` for steps that call tools that no backend
 * can have.
 */
export function reportCompositeTools(
  { served, refused, isIncomplete }: CompositeTools,
  config: GatewayConfig,
  conditions: Conditions,
): void {
  const reason = isIncomplete ? 'DefinitionsLeftOut' : 'DefinitionsRefused'
  if (refused.length > 0) conditions.set('CompositeToolsReady', 'False', reason, refused.join('; '))
  else if (served.length > 0) conditions.set('CompositeToolsReady', 'True', 'AllServed', '')
  const unknown = unknownTools(config)
  if (unknown.length > 0) conditions.set('CompositeToolWarning', 'True', 'NoSuchTool', unknown.join('; '))
}
