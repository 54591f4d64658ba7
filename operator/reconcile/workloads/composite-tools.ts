import { type VirtualMCPServer, virtualMcpCompositeToolDefinition } from '../../../crds/index.ts'
import { calledTools, unknownTools, workflowFindings } from '../../../dataplane/config/check/workflows.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { byText } from '../../model/index.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
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
  /** Which definitions are not offered, and why, for people. */
  readonly leftOut: readonly string[]
}

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

/** The workflow of the definition of this name, or why it can't be used. Its own status has all that is wrong with it. */
function definitionNamed(name: string, { view, namespace }: Resolver): Definition | string {
  const object = view.get(virtualMcpCompositeToolDefinition, namespace, name)
  if (!object) return 'it is missing'
  const problems = startProblems()
  checkDefinition(object, startResolver(view, namespace, problems))
  const [first, ...others] = problems.all()
  if (first === undefined) return object.spec
  return problemText(first) + (others.length === 0 ? '' : ` (and ${others.length} more)`)
}

/**
 * The composite tools that a gateway offers. What is wrong with those of its own is noted in the resolver's problems; a
 * definition that is missing or invalid, or that can't be offered beside the others, is left out, and named. Of two
 * definitions that can't both be offered the first by object name stays.
 */
export function compositeToolsOf(
  { compositeTools = [], compositeToolRefs = [] }: Settings,
  resolver: Resolver,
): CompositeTools {
  for (const { pointer, message } of workflowFindings({ compositeTools, role: 'gateway' }))
    resolver.problems.add('Valid', 'ConfigInvalid', { pointer: `/spec/config${pointer}`, message })
  const served: Definition[] = [...compositeTools]
  const taken: Taken = { names: new Set(), called: new Set() }
  for (const definition of compositeTools) take(definition, taken)
  const leftOut: string[] = []
  for (const name of compositeToolRefs.map((ref) => ref.name).sort()) {
    const found = definitionNamed(name, resolver)
    const problem = typeof found === 'string' ? found : clash(found, taken)
    if (typeof found === 'string' || problem !== undefined)
      leftOut.push(`VirtualMCPCompositeToolDefinition ${JSON.stringify(name)} is left out: ${problem}`)
    else {
      take(found, taken)
      served.push(found)
    }
  }
  return { served: sortedKeys(served.sort((a, b) => byText(a.name, b.name))), leftOut }
}

/**
 * `CompositeToolsReady`: which definitions aren't offered, and why; not set where there are none at all.
 * `CompositeToolWarning`: steps that call what no backend can have, be it a typing error or a backend that is yet to come.
 */
export function reportCompositeTools(
  { served, leftOut }: CompositeTools,
  config: GatewayConfig,
  conditions: Conditions,
): void {
  if (leftOut.length > 0) conditions.set('CompositeToolsReady', 'False', 'DefinitionsLeftOut', leftOut.join('; '))
  else if (served.length > 0) conditions.set('CompositeToolsReady', 'True', 'AllServed', '')
  const unknown = unknownTools(config)
  if (unknown.length > 0) conditions.set('CompositeToolWarning', 'True', 'NoSuchTool', unknown.join('; '))
}
