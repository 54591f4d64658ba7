import { type VirtualMCPServer, virtualMcpCompositeToolDefinition } from '../../../crds/index.ts'
import { calledTools, unknownTools, workflowFindings } from '../../../dataplane/config/check/workflows.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { byText } from '../../model/index.ts'
import { canonicalJson, sortedKeys } from '../../render/object/canonical.ts'
import { checkDefinition } from '../configs/virtual-mcp-composite-tool-definition.ts'
import type { Conditions } from '../outcome/conditions.ts'
import { problemText, startProblems } from '../outcome/problems.ts'
import { type Resolver, startResolver } from '../references/resolver.ts'

type Settings = NonNullable<VirtualMCPServer['spec']['config']>
type Definition = NonNullable<GatewayConfig['compositeTools']>[number]

/** The composite tools of a gateway. */
export interface CompositeTools {
  /** Those of its own and those of definitions that it names, by name. */
  readonly served: Definition[]
  /** Which definitions are not offered as they stand, and why, for people. */
  readonly refused: readonly string[]
  /** Whether some of those are not offered at all. */
  readonly isIncomplete: boolean
  /** The definitions that are served, by the names of their objects: the last good ones, for the gateway's status. */
  readonly lastGood: LastGood
}

/** Definitions as they were served last; JSON texts by the names of their objects. */
type LastGood = Readonly<Record<string, string>>

/** Characters of all definitions that a status keeps. One for which there is no room is left out while it is wrong. */
const MOST_KEPT = 64 * 1024

/** What a definition may not be called, and may not call, beside the composite tools that are there already. */
interface Taken {
  readonly names: Set<string>
  readonly called: Set<string>
}

function take(definition: Definition, { names, called }: Taken): void {
  names.add(definition.name)
  for (const { tool } of calledTools(definition)) called.add(tool)
}

/** Why a definition that is right by itself can't be offered beside others: that is no fault of theirs. */
function clash(definition: Definition, { names, called }: Taken): string | undefined {
  const { name } = definition
  if (names.has(name)) return `/spec/name: another composite tool has the name ${JSON.stringify(name)}`
  if (called.has(name))
    return `/spec/name: another composite tool calls ${JSON.stringify(name)}, and these do not call each other`
  const nested = calledTools(definition).find(({ tool }) => names.has(tool))
  return nested && `/spec${nested.pointer}: is a composite tool: these do not call each other`
}

const MISSING = 'it is missing'

/** The workflow of the definition of this name, or why it can't be used. Its own status has all that is wrong with it. */
function definitionNamed(name: string, { view, namespace }: Resolver): Definition | string {
  const object = view.get(virtualMcpCompositeToolDefinition, namespace, name)
  if (!object) return MISSING
  const problems = startProblems()
  checkDefinition(object, startResolver(view, namespace, problems))
  const [first, ...others] = problems.all()
  if (first === undefined) return object.spec
  return problemText(first) + (others.length === 0 ? '' : ` (and ${others.length} more)`)
}

/** Definitions that are named, those first that are served as they stand: nobody's change takes away what others have. */
const inOrder = (refs: readonly { readonly name: string }[], texts: LastGood, resolver: Resolver) =>
  refs
    .map(({ name }) => ({ name, found: definitionNamed(name, resolver) }))
    .map((one) => ({ ...one, isNew: typeof one.found === 'string' || textOf(one.found) !== texts[one.name] }))
    .sort((a, b) => Number(a.isNew) - Number(b.isNew) || byText(a.name, b.name))

const textOf = (definition: Definition) => canonicalJson(definition)

/** The last good definition of a name, where that can be offered beside those that are taken. */
function keptOf(text: string | undefined, taken: Taken): Definition | undefined {
  const kept = text === undefined ? undefined : (JSON.parse(text) as Definition)
  return kept === undefined || clash(kept, taken) !== undefined ? undefined : kept
}

/**
 * The composite tools that a gateway offers. What is wrong with those of its own is noted in the resolver's problems. A
 * definition that is invalid, or that can't be offered beside the others, is named, and the last good one keeps serving;
 * one that has none, or is missing, is left out. Of two new definitions that can't both be offered the first by object
 * name stays.
 */
export function compositeToolsOf(
  { compositeTools = [], compositeToolRefs = [] }: Settings,
  before: LastGood,
  resolver: Resolver,
): CompositeTools {
  for (const { pointer, message } of workflowFindings({ compositeTools, role: 'gateway' }))
    resolver.problems.add('Valid', 'ConfigInvalid', { pointer: `/spec/config${pointer}`, message })
  const served: Definition[] = [...compositeTools]
  const taken: Taken = { names: new Set(), called: new Set() }
  for (const definition of compositeTools) take(definition, taken)
  const refused: { readonly name: string; readonly text: string }[] = []
  const lastGood: Record<string, string> = {}
  let isIncomplete = false
  let kept = 0
  const serve = (name: string, definition: Definition) => {
    take(definition, taken)
    served.push(definition)
    const text = textOf(definition)
    kept += text.length
    if (kept <= MOST_KEPT) lastGood[name] = text
  }
  for (const { name, found } of inOrder(compositeToolRefs, before, resolver)) {
    const problem = typeof found === 'string' ? found : clash(found, taken)
    if (typeof found !== 'string' && problem === undefined) {
      serve(name, found)
      continue
    }
    const last = problem === MISSING ? undefined : keptOf(before[name], taken)
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
 * `CompositeToolsReady`: which definitions aren't offered as they stand, and why; not set where there are none at all.
 * `CompositeToolWarning`: steps that call what no backend can have, be it a typing error or a backend that is yet to come.
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
