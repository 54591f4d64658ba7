import { TOOL_PREFIX } from '../../../crds/settings/gateway/defaults.ts'
import { countValues as countAll } from '../../../crds/settings/json.ts'
import type { CompositeToolConfig, GatewayConfig } from '../gateway.ts'
import type { Finding } from '../load.ts'
import { compileWorkflow } from '../workflow/compile.ts'
import { workflowLimits } from '../workflow/limits.ts'
import { duplicates } from './lists.ts'

export function workflowFindings({
  compositeTools = [],
  role,
}: Pick<GatewayConfig, 'compositeTools' | 'role'>): readonly Finding[] {
  const at = '/compositeTools'
  if (compositeTools.length > 0 && role === 'proxy')
    return [{ pointer: at, message: 'work only in a gateway: a proxy shows its server as it is' }]
  if (countValues(compositeTools) > workflowLimits.values) return [{ pointer: at, message: TOO_MANY_VALUES }]
  const names = new Set(compositeTools.map(({ name }) => name))
  return [
    ...duplicates(compositeTools, ({ name }) => name, at, '/name'),
    ...compositeTools.flatMap((definition, index) =>
      [...compileWorkflow(definition).findings, ...nestedFindings(definition, names)].map((finding) => ({
        ...finding,
        pointer: `${at}/${index}${finding.pointer}`,
      })),
    ),
  ]
}

export const TOO_MANY_VALUES = `have more than ${workflowLimits.values} values together`

/** Counts the values in definitions. Stops soon after the limit. */
export const countValues = (definitions: readonly CompositeToolConfig[]): number =>
  countAll(definitions, workflowLimits.values)

/** Checks that composite tools call only tools of backends: calls of each other could recurse without end. */
const nestedFindings = (definition: CompositeToolConfig, composites: ReadonlySet<string>): readonly Finding[] =>
  calledTools(definition)
    .filter(({ tool }) => composites.has(tool))
    .map(({ pointer }) => ({ pointer, message: 'is a composite tool: composite tools can’t call each other' }))

export const calledTools = ({
  steps,
}: CompositeToolConfig): readonly { readonly pointer: string; readonly tool: string }[] =>
  steps.flatMap((step, index) => {
    const { type, tool } = step.type === 'forEach' ? (step.step ?? step) : step
    const pointer = `/steps/${index}${step.type === 'forEach' ? '/step' : ''}/tool`
    return type === 'tool' && tool !== undefined ? [{ pointer, tool }] : []
  })

/** Characters that are replaced in displayed names; long names are cut. */
const OTHER = /[^A-Za-z0-9_.-]/g
const SURE = 55

/** Returns the steps that name tools which no backend can have. No finding: a backend may be away for a while. */
export function unknownTools({ compositeTools = [], backends, aggregation }: GatewayConfig): readonly string[] {
  const { conflictResolution = 'prefix', conflictResolutionConfig } = aggregation ?? {}
  if (conflictResolution !== 'prefix') return []
  const format = conflictResolutionConfig?.prefixFormat ?? TOOL_PREFIX
  const starts = backends.flatMap(({ name }) => [
    `${name}.`,
    format.replaceAll('{workload}', name).replace(OTHER, '_').slice(0, SURE),
  ])
  return compositeTools.flatMap((definition) =>
    calledTools(definition)
      .filter(({ tool }) => !starts.some((start) => tool.startsWith(start)))
      .map(({ tool }) => `${definition.name} calls ${tool}, which is a tool of no backend`),
  )
}
