import { createBudget } from '../format/budget.ts'
import type { LocationOf, Pass, ReadChange } from '../format/source.ts'
import { SourceError } from '../format/source-error.ts'
import { EXPORTED_KINDS, openCluster } from './cluster.ts'
import { type Exportable, exportedEntries, hashCatalog, isExported } from './exported.ts'
import { listObjects } from './list.ts'

/** The most bytes that are kept of all objects until the last has come. */
const MOST_KEPT = 32 * 1024 * 1024

/** Lists all objects in the namespaces and takes their union. `watch.ts` decides when to poll. */
export async function pollKubernetes(location: LocationOf<'kubernetes'>, pass: Pass): Promise<ReadChange | undefined> {
  await using cluster = openCluster(location)
  const { signal, maxBytes } = pass
  const budget = createBudget(maxBytes)
  const objects: Exportable[] = []
  let kept = 0
  const keep = (object: Exportable) => {
    const part = exportablePart(object)
    kept += JSON.stringify(part).length
    if (kept > MOST_KEPT)
      throw new SourceError(
        'too_large',
        `the objects that are to be listed have more than ${MOST_KEPT} bytes of annotations`,
      )
    objects.push(part)
  }
  for (const { kind, plural } of EXPORTED_KINDS)
    for (const namespace of location.namespaces) {
      const take = (object: Exportable) => {
        if (isExported(object, location.group)) keep({ ...object, kind })
      }
      await listObjects(cluster, { plural, namespace, signal }, { budget, take })
    }

  const catalog = exportedEntries(objects, location.group)
  const cursor = hashCatalog(catalog)
  if (cursor === pass.cursor) return undefined
  return async () => ({ complete: true, batches: [catalog], cursor: () => cursor })
}

/** Returns the relevant part of an object. The rest need not be held until all have come. */
function exportablePart({ kind, metadata, spec }: Exportable): Exportable {
  const { name, namespace, uid, annotations = {} } = metadata
  const transport = spec?.transport
  return {
    kind,
    metadata: { name, namespace, uid, annotations },
    ...(transport !== undefined && { spec: { transport } }),
  }
}
