import { mcpToolConfig } from '../../../crds/index.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import { checkSupported, noteInvalid, validatePart } from '../outcome/findings.ts'
import { type CheckConfig, findConfig, type Resolver } from '../references/references.ts'
import { planConfig } from './config.ts'

const checkToolConfig: CheckConfig<typeof mcpToolConfig> = (object, { problems }) => {
  checkSupported(mcpToolConfig, object, problems)
  const seen = new Map<string, string>()
  for (const [tool, { name = tool }] of Object.entries(sortedKeys(object.spec.toolsOverride ?? {}))) {
    const other = seen.get(name)
    if (other !== undefined) {
      const message = `${JSON.stringify(other)} and ${JSON.stringify(tool)} get the same name ${JSON.stringify(name)}`
      problems.refuse('/spec/toolsOverride', message, ': ')
    }
    seen.set(name, tool)
  }
  const { toolsFilter: filter, toolsOverride: overrides } = object.spec
  const shaping = { workload: 'any', ...(filter && { filter: [...filter] }), ...(overrides && { overrides }) }
  noteInvalid(validatePart({ aggregation: { tools: [shaping] } }, PLACES), problems)
}

const PLACES = {
  '/aggregation/tools/0/filter': '/spec/toolsFilter',
  '/aggregation/tools/0/overrides': '/spec/toolsOverride',
}

export const reconcileMcpToolConfig = planConfig(mcpToolConfig, checkToolConfig)

export type ToolShaping = NonNullable<NonNullable<GatewayConfig['aggregation']>['tools']>[number]

/** Returns filter and overrides of a shared config, or undefined after recording the problem if it is unavailable. */
export function readSharedShaping(
  ref: { readonly name: string } | undefined,
  resolver: Resolver,
): Pick<ToolShaping, 'filter' | 'overrides'> | undefined {
  const config = ref && findConfig(mcpToolConfig, checkToolConfig, ref.name, resolver)
  if (!config) return undefined
  const { toolsFilter, toolsOverride } = config.spec
  return {
    ...(toolsFilter === undefined ? {} : { filter: [...toolsFilter].sort() }),
    ...(toolsOverride === undefined ? {} : { overrides: sortedKeys(toolsOverride) }),
  }
}
