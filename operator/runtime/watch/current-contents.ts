import type { ClusterView } from '../../model/view.ts'
import { partsOf } from '../queue/keys.ts'
import { type Dependency, trackedView } from './dependencies.ts'
import type { ReferencedContent } from './referenced-content.ts'

/** Contents that a view may ask for, by kind. */
export type Contents = ReadonlyMap<string, ReferencedContent<unknown>>

/** How often is begun anew because what was read has changed meanwhile. */
const ROUNDS = 8

/**
 * Makes something of a view, again until every Secret and ConfigMap that was read on the way is of its latest version.
 * `make` gets the view to read by, and what it has read once it is done.
 */
export async function onCurrentContents<T>(
  view: ClusterView,
  contents: Contents,
  make: (view: ClusterView, seen: ReadonlySet<Dependency>) => T,
): Promise<T> {
  for (let round = 0; ; round++) {
    const seen = new Set<Dependency>()
    const made = make(trackedView(view, seen), seen)
    const outdated = refreshesOf(seen, contents)
    if (outdated.length === 0 || round === ROUNDS) return made
    await Promise.all(outdated.map((refresh) => refresh()))
  }
}

function refreshesOf(seen: ReadonlySet<Dependency>, contents: Contents): (() => Promise<void>)[] {
  const refreshes: (() => Promise<void>)[] = []
  for (const dependency of seen) {
    const { kind, namespace, name } = partsOf(dependency)
    const content = contents.get(kind)
    if (content && !content.isCurrent(namespace, name)) refreshes.push(() => content.refresh(namespace, name))
  }
  return refreshes
}
