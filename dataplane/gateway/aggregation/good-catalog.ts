import type { Backend } from '../backends/backend/backend.ts'
import type { Catalog } from './catalog.ts'

/**
 * The catalog to show in place of `next`. Where names clash that the configuration has to resolve, the one `before` stays,
 * where it has no clashes and all of its backends are still there. `backends`: those that there are; none as long as
 * some have not been asked, since what comes first at the start is a matter of chance, and no set to go back to.
 */
export function goodCatalog(next: Catalog, before: Catalog, backends: readonly Backend[]): Catalog {
  if (next.conflicts.length === 0 || before.conflicts.length > 0 || backends.length === 0) return next
  const present = new Set(backends)
  return [...before.routes.values()].every(({ backend }) => present.has(backend)) ? before : next
}
