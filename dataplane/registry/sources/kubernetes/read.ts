import type { Pass, PlaceOf, ReadChange } from '../source.ts'
import { SourceError } from '../source-error.ts'
import { type Cluster, EXPORTED_KINDS, openCluster } from './cluster.ts'
import { type Exportable, exportedEntries, hashOf } from './exported.ts'

const PAGE_SIZE = '500'
const IDLE_MS = 30_000

interface List {
  readonly items: readonly Exportable[]
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string }
}

/**
 * Lists what the namespaces hold, all of it, and takes the union for what the source holds: an event in one namespace
 * says nothing about the others. When to look is for `follow.ts`.
 */
export async function readKubernetes(place: PlaceOf<'kubernetes'>, pass: Pass): Promise<ReadChange | undefined> {
  await using cluster = openCluster(place)
  const objects: Exportable[] = []
  for (const { kind, plural } of EXPORTED_KINDS)
    for (const namespace of place.namespaces)
      for (const object of (await listObjects(cluster, plural, namespace, pass.signal))?.items ?? [])
        objects.push({ ...object, kind })

  const catalog = exportedEntries(objects, place.group)
  const mark = hashOf(catalog)
  if (mark === pass.mark) return undefined
  return async () => ({ complete: true, batches: [catalog], mark: () => mark })
}

/** All objects of one kind in one namespace; undefined where there is no such kind. */
export async function listObjects(
  cluster: Cluster,
  plural: string,
  namespace: string,
  signal: AbortSignal,
): Promise<List | undefined> {
  const items: Exportable[] = []
  for (let next: string | undefined; ; ) {
    const query = { limit: PAGE_SIZE, ...(next !== undefined && { continue: next }) }
    const body = await cluster.get(plural, namespace, query, { signal, idleMs: IDLE_MS })
    if (body === undefined) return undefined
    const page = (await body.json().catch((error: Error) => {
      throw new SourceError('upstream_failed', `the API server’s list broke off (${error.name})`)
    })) as List
    items.push(...page.items)
    next = page.metadata.continue || undefined
    if (next === undefined) return { items, metadata: page.metadata }
  }
}
