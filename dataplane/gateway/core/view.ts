import type { GatewayConfig } from '../../config/gateway.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import { holderOf } from '../aggregation/prompt-resource-catalog.ts'
import { shapeOf } from '../aggregation/shape.ts'
import type { Backend } from '../backends/backend/backend.ts'

/**
 * What one caller sees of the backends, and the only way to it: the same for all callers, or the caller's own where
 * some backend gets a credential of the caller.
 */
export interface View extends Catalogs {
  readonly backends: readonly Backend[]
  /** Whether every backend has been asked for its lists, with or without success. */
  readonly allListed: boolean
  /** Settles when every backend has given its lists, or has had its time. */
  firstLists(): Promise<void>
  /** The backends for want of which lists fail now. */
  readonly missing: readonly Backend[]
  backendNamed(name: string): Backend | undefined
}

/** The backend that has a resource, for whoever has this view; undefined where none is known to. */
export function backendOfUri(view: View, uri: string): Backend | undefined {
  const name = holderOf(view.promptsAndResources, uri)
  return name === undefined ? undefined : view.backendNamed(name)
}

/** The backends that have never listed their tools and could have one of this name. */
export const unlistedBackendsFor = (
  config: GatewayConfig,
  backends: readonly Backend[],
  name: string,
): readonly Backend[] =>
  backends.filter((backend) => {
    if (backend.tools !== undefined) return false
    const { prefix, filter, hidden } = shapeOf(config, backend.name)
    return !hidden && name.startsWith(prefix) && (filter === undefined || filter.has(name.slice(prefix.length)))
  })
