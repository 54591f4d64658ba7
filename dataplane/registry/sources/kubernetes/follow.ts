import { setTimeout as delay } from 'node:timers/promises'
import type { PlaceOf } from '../format/source.ts'
import { type Cluster, EXPORTED_KINDS, openCluster } from './cluster.ts'
import { listVersion } from './list.ts'

/** Events come in bursts; one look does for all of them. */
const SETTLE_MS = 200
const WATCH_S = 300
/** After this without a byte the connection counts as dead: bookmarks come about once a minute. */
const IDLE_MS = 120_000
const RETRY_MS = 1_000
const SHORTEST_WATCH_MS = 1_000
const LONGEST_RETRY_MS = 30_000
/** Of an event no more is held: of one that is longer it is known that something has changed, and no more. */
const LONGEST_EVENT = 4 * 1024 * 1024
/** How often a kind that the API server does not know is looked for. */
const ABSENT_MS = 30_000

/**
 * Calls `look` some time after anything changes among the exported kinds of these namespaces, and after each time that
 * changes may have been missed. Ends with the signal.
 */
export function followKubernetes(place: PlaceOf<'kubernetes'>, look: () => void, signal: AbortSignal): void {
  const cluster = openCluster(place)
  let settle: NodeJS.Timeout | undefined
  const changed = () => {
    settle ??= setTimeout(() => {
      settle = undefined
      look()
    }, SETTLE_MS)
  }
  signal.addEventListener(
    'abort',
    () => {
      clearTimeout(settle)
      cluster[Symbol.asyncDispose]().then(undefined, () => {})
    },
    { once: true },
  )
  // It goes on until the signal, whatever fails: the source's own looks at intervals tell what.
  for (const { plural } of EXPORTED_KINDS)
    for (const namespace of place.namespaces) followKind(cluster, plural, namespace, changed, signal).catch(() => {})
}

async function followKind(
  cluster: Cluster,
  plural: string,
  namespace: string,
  changed: () => void,
  signal: AbortSignal,
): Promise<void> {
  let retry = RETRY_MS
  while (!signal.aborted) {
    const begun = performance.now()
    try {
      const version = await listVersion(cluster, { plural, namespace, signal })
      if (version === undefined) await delay(ABSENT_MS, undefined, { signal })
      else {
        changed()
        await watchFrom(cluster, plural, namespace, version, changed, signal)
      }
    } catch {
      // What is wrong shows at the source: its next look meets the same.
    }
    // A server that ends each watch at once, or refuses each as too old, is not asked again and again either.
    if (performance.now() - begun > LONGEST_RETRY_MS) retry = RETRY_MS
    await delay(retry * (1 + Math.random() / 4), undefined, { signal }).catch(() => undefined)
    retry = Math.min(retry * 2, LONGEST_RETRY_MS)
  }
}

/** Watches until the server can't go on from where it was (410) or ends a watch at once, or the connection breaks. */
async function watchFrom(
  cluster: Cluster,
  plural: string,
  namespace: string,
  resourceVersion: string,
  changed: () => void,
  signal: AbortSignal,
): Promise<void> {
  let from = resourceVersion
  let begun: number
  do {
    begun = performance.now()
    const query = {
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: from,
      timeoutSeconds: String(WATCH_S),
    }
    const body = await cluster.get(plural, namespace, query, { signal, idleMs: IDLE_MS })
    if (body === undefined) return
    for await (const line of linesOf(body, LONGEST_EVENT)) {
      if (line === undefined) return changed()
      if (line === '') continue
      const { type, object } = JSON.parse(line) as {
        type: string
        object: { metadata?: { resourceVersion?: string } }
      }
      if (type === 'ERROR') return
      from = object.metadata?.resourceVersion ?? from
      if (type !== 'BOOKMARK') changed()
    }
  } while (!signal.aborted && performance.now() - begun > SHORTEST_WATCH_MS)
}

/** The lines of a body; undefined, and nothing more, where one has more bytes than so many. */
async function* linesOf(body: AsyncIterable<Buffer>, longest: number): AsyncGenerator<string | undefined> {
  let held: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      yield Buffer.concat([...held, chunk.subarray(from, at)]).toString()
      held = []
      size = 0
      from = at + 1
    }
    held.push(chunk.subarray(from))
    size += chunk.length - from
    if (size <= longest) continue
    yield undefined
    return
  }
}

const NEWLINE = 0x0a
