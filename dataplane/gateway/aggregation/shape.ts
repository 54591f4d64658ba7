import type { ToolOverride } from '../../../crds/settings/gateway/aggregation.ts'
import { TOOL_PREFIX } from '../../../crds/settings/gateway/defaults.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import { editObject, memberText } from '../mcp/json.ts'

/** The configuration's changes to the tools of one backend. */
export interface Shape {
  readonly prefix: string
  /** The names to show, after overrides; undefined: all. */
  readonly filter: ReadonlySet<string> | undefined
  readonly overrides: Readonly<Record<string, ToolOverride>>
  readonly hidden: boolean
}

/**
 * Returns the configured changes to the tools of a backend. Only the prefix strategy uses a prefix, and never in a
 * proxy.
 */
export function readShape(
  { role, aggregation = {} }: Pick<GatewayConfig, 'role' | 'aggregation'>,
  workload: string,
): Shape {
  const { conflictResolution = 'prefix' } = aggregation
  const own = aggregation.tools?.find((shaping) => shaping.workload === workload)
  const unnamed = own === undefined
  const format = aggregation.conflictResolutionConfig?.prefixFormat ?? TOOL_PREFIX
  return {
    prefix: role === 'proxy' || conflictResolution !== 'prefix' ? '' : format.replaceAll('{workload}', workload),
    filter: own?.filter === undefined ? undefined : new Set(own.filter),
    overrides: own?.overrides ?? {},
    hidden:
      aggregation.excludeAllTools === true ||
      own?.excludeAll === true ||
      (unnamed && aggregation.defaultToolVisibility === 'deny'),
  }
}

/**
 * Returns the backends that may have a tool, prompt or resource according to the configuration: the named one, else
 * those whose prefix the name has.
 */
export function findBackends(
  config: GatewayConfig,
  { id, backend }: { readonly id: string; readonly backend?: string | undefined },
): readonly string[] {
  const names = config.backends.map(({ name }) => name)
  if (backend !== undefined) return names.filter((name) => name === backend)
  if (config.role === 'proxy') return names
  return names.filter((name) => {
    const { prefix } = readShape(config, name)
    return prefix !== '' && id.startsWith(prefix)
  })
}

export const NO_OVERRIDE: ToolOverride = {}

/** Returns the override of one of the backend's tools. */
export const findOverride = ({ overrides }: Shape, name: string): ToolOverride =>
  Object.hasOwn(overrides, name) ? (overrides[name] as ToolOverride) : NO_OVERRIDE

/** Applies the configured changes to a tool's JSON text. */
export function shapedText(text: string, shownName: string, { description, annotations }: ToolOverride): string {
  return editObject(text, {
    name: JSON.stringify(shownName),
    ...(description === undefined ? {} : { description: JSON.stringify(description) }),
    ...(annotations === undefined ? {} : { annotations: annotationsText(text, annotations) }),
  })
}

function annotationsText(tool: string, annotations: NonNullable<ToolOverride['annotations']>): string {
  const before = memberText(tool, 'annotations')
  const edits = Object.entries(annotations).map(([hint, value]) => [hint, JSON.stringify(value)])
  return editObject(before?.startsWith('{') ? before : '{}', Object.fromEntries(edits))
}
