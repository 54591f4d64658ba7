import type { Catalog } from './catalog.ts'

/** How many tools of each backend, by its name, are shown; backends without any are not in it. */
export function shownToolsOf({ routes }: Pick<Catalog, 'routes'>): ReadonlyMap<string, number> {
  const shown = new Map<string, number>()
  for (const { backend } of routes.values()) shown.set(backend, (shown.get(backend) ?? 0) + 1)
  return shown
}
