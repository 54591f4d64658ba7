import { createHash } from 'node:crypto'
import type { ToolOverride } from '../../../crds/settings/gateway/aggregation.ts'
import { TOOL_PREFIX } from '../../../crds/settings/gateway/defaults.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Operation } from '../../telemetry/observe.ts'
import type { ParamHeader } from '../mcp/eras.ts'
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

/** The longest name. Longer names, or other characters, break widely used clients and model APIs. */
const LONGEST = 64
const OTHER = /[^A-Za-z0-9_.-]/g
const DIGEST = 8

/**
 * Returns a name that clients accept: unchanged if it is short and plain, otherwise cut and cleaned, with a hash of the
 * whole name, so that it does not depend on other names in the list.
 */
export function fitName(name: string): string {
  const plain = name.replace(OTHER, '_')
  return plain === name && name.length <= LONGEST ? name : withDigest(plain, name)
}

/** Returns another name for a tool whose `name` is already in use. It depends on `origin` only, so it is stable. */
export const otherName = (name: string, origin: string): string => withDigest(name, origin)

function withDigest(name: string, of: string): string {
  const digest = createHash('sha256').update(of).digest('hex').slice(0, DIGEST)
  return `${name.slice(0, LONGEST - DIGEST - 1)}_${digest}`
}

/** The target of a call of a shown tool. */
export interface Route {
  /** The name of the backend. The view tells whether it is the shared one or the caller's own. */
  readonly backend: string
  readonly tool: string
  /** The backend's name for the tool as JSON text; undefined if it equals the shown name. */
  readonly rename: string | undefined
  /** The backend's name for the tool as a header value. */
  readonly nameHeader: string
  readonly paramHeaders: readonly ParamHeader[]
  /** The digest of the definition that was approved, for the audit log; undefined if the backend has no pins. */
  readonly digest?: string | undefined
  /** True if the tool declares that a call may be repeated. */
  readonly isRepeatable?: boolean
  /** The metric for calls of the tool; absent if the route leads to something else. */
  readonly operation?: Operation
}
