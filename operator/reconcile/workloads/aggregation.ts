import type { VirtualMCPServer } from '../../../crds/index.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import { readSharedShaping, type ToolShaping } from '../configs/mcp-tool-config.ts'
import type { Resolver } from '../references/references.ts'

type Aggregation = NonNullable<NonNullable<VirtualMCPServer['spec']['config']>['aggregation']>

function buildToolShaping(tools: Aggregation['tools'], resolver: Resolver): ToolShaping[] {
  const shaped = (tools ?? []).map(({ workload, filter, overrides, excludeAll, toolConfigRef }): ToolShaping => {
    const shared = readSharedShaping(toolConfigRef, resolver)
    const names = filter ? [...filter].sort() : shared?.filter
    const replaced = { ...shared?.overrides, ...overrides }
    return {
      workload,
      ...(names === undefined ? {} : { filter: names }),
      ...(Object.keys(replaced).length === 0 ? {} : { overrides: sortedKeys(replaced) }),
      ...(excludeAll === undefined ? {} : { excludeAll }),
    }
  })
  return shaped.sort((a, b) => (a.workload < b.workload ? -1 : 1))
}

const buildSkillChoices = (skills: Aggregation['skills'] = []) =>
  skills
    .map(({ workload, filter, excludeAll }) => ({
      workload,
      ...(filter === undefined ? {} : { filter: [...filter].sort() }),
      ...(excludeAll === undefined ? {} : { excludeAll }),
    }))
    .sort((a, b) => (a.workload < b.workload ? -1 : 1))

/** Returns the names that overrides give to tools of two backends. Only the gateway can find other clashes. */
function findOverrideClashes(strategy: string, shapings: readonly ToolShaping[]): string[] {
  if (strategy !== 'manual') return []
  const owners = new Map<string, string[]>()
  for (const { workload, filter, overrides, excludeAll } of shapings) {
    const names = Object.values(overrides ?? {}).flatMap(({ name }) => (name === undefined ? [] : [name]))
    for (const name of excludeAll ? [] : new Set(names))
      if (filter === undefined || filter.includes(name)) owners.set(name, [...(owners.get(name) ?? []), workload])
  }
  return [...owners]
    .filter(([, workloads]) => workloads.length > 1)
    .map(([name, workloads]) => `${name} is a tool of ${workloads.join(' and ')}`)
    .sort()
}

/** Builds the settings that combine all backends' tools. Missing references become the resolver's problems. */
export function buildAggregation(
  aggregation: Aggregation | undefined,
  resolver: Resolver,
): Pick<GatewayConfig, 'aggregation'> {
  if (!aggregation) return {}
  const tools = buildToolShaping(aggregation.tools, resolver)
  const skills = buildSkillChoices(aggregation.skills)
  const { conflictResolution, conflictResolutionConfig = {}, defaultToolVisibility, excludeAllTools } = aggregation
  for (const message of findOverrideClashes(conflictResolution, tools))
    resolver.problems.add('Valid', 'AggregationConflict', { pointer: '/spec/config/aggregation', message })
  const { priorityOrder, prefixFormat } = conflictResolutionConfig
  const inEffect = {
    ...(conflictResolution === 'priority' && priorityOrder !== undefined ? { priorityOrder } : {}),
    ...(conflictResolution === 'prefix' && prefixFormat !== undefined ? { prefixFormat } : {}),
  }
  return {
    aggregation: {
      conflictResolution,
      ...(Object.keys(inEffect).length === 0 ? {} : { conflictResolutionConfig: inEffect }),
      ...(defaultToolVisibility === 'deny' ? { defaultToolVisibility } : {}),
      ...(excludeAllTools === undefined ? {} : { excludeAllTools }),
      ...(skills.length === 0 ? {} : { skills }),
      ...(tools.length === 0 ? {} : { tools }),
    },
  }
}
