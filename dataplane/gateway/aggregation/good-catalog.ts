import type { Backend } from '../backends/backend/backend.ts'
import type { Catalog } from './catalog.ts'

/** A catalog, and what it was built from. */
export interface BuiltCatalog {
  readonly catalog: Catalog
  readonly backends: readonly Backend[]
}

/**
 * What to show in place of `next`. Where names clash that the configuration has to resolve, what was shown `before` stays,
 * where it has no clashes and all of its backends are still there. `backends`: those that there are; none as long as
 * some have not been asked, since what comes first at the start is a matter of chance, and no set to go back to.
 */
export function goodCatalog(next: BuiltCatalog, before: BuiltCatalog, backends: readonly Backend[]): BuiltCatalog {
  if (next.catalog.conflicts.length === 0 || before.catalog.conflicts.length > 0 || backends.length === 0) return next
  const present = new Set(backends)
  const gone = new Set(before.backends.filter((backend) => !present.has(backend)).map(({ name }) => name))
  return [...before.catalog.routes.values()].every(({ backend }) => !gone.has(backend)) ? before : next
}
