import type { ToolOverride } from '../../../crds/settings/gateway/aggregation.ts'
import { TOOL_PREFIX } from '../../../crds/settings/gateway/defaults.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import { editObject, memberText } from '../mcp/json.ts'

/** The configuration's changes to the tools of one backend. */
export interface Shape {
  readonly prefix: string
  /** The shown names, after overrides; undefined: all. */
  readonly filter: ReadonlySet<string> | undefined
  readonly overrides: Readonly<Record<string, ToolOverride>>
  readonly hidden: boolean
}

/**
 * Reads the shape of a backend's tools from the configuration. Only the prefix strategy has a prefix, and a proxy has
 * none.
 */
export function shapeOf(
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

export const NO_OVERRIDE: ToolOverride = {}

/** Returns the override of one of the backend's tools. */
export const overrideOf = ({ overrides }: Shape, name: string): ToolOverride =>
  Object.hasOwn(overrides, name) ? (overrides[name] as ToolOverride) : NO_OVERRIDE

/** Applies the configured changes, and no others, to the tool's JSON text. */
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
