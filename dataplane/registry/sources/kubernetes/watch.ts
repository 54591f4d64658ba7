import { setTimeout as delay } from 'node:timers/promises'
import type { LocationOf } from '../format/source.ts'
import { type Cluster, EXPORTED_KINDS, openCluster } from './cluster.ts'
import { listVersion } from './list.ts'

/** Events come in bursts; one poll does for all of them. */
const SETTLE_MS = 200
const WATCH_S = 300
/** After this without a byte the connection counts as dead: bookmarks come about once a minute. */
const IDLE_MS = 120_000
const RETRY_MS = 1_000
const SHORTEST_WATCH_MS = 1_000
const LONGEST_RETRY_MS = 30_000
/** Of an event no more is held: of one that is longer it is known that something has changed, and no more. */
const LONGEST_EVENT = 4 * 1024 * 1024
/** How often a kind that the API server does not know is asked for again. */
const ABSENT_MS = 30_000

/**
 * Calls `poll` some time after anything changes among the exported kinds of these namespaces, and after each time that
 * changes may have been missed. Ends with the signal.
 */
export function watchKubernetes(location: LocationOf<'kubernetes'>, poll: () => void, signal: AbortSignal): void {
  const cluster = openCluster(location)
  let settle: NodeJS.Timeout | undefined
  const changed = () => {
    settle ??= setTimeout(() => {
      settle = undefined
      poll()
    }, SETTLE_MS)
  }
  signal.addEventListener(
    'abort',
    () => {
      clearTimeout(settle)
      cluster[Symbol.asyncDispose]().then(undefined, () => {
        // The watch has ended; connections that don't close in order are of no use to anybody.
      })
    },
    { once: true },
  )
  for (const { plural } of EXPORTED_KINDS)
    for (const namespace of location.namespaces)
      watchKind({ cluster, plural, namespace, changed, signal }).catch(() => {
        // `watchKind` handles its own errors until the signal ends it.
      })
}

/** Objects of one kind in one namespace, and whom to call when they change. */
interface Watched {
  readonly cluster: Cluster
  readonly plural: string
  readonly namespace: string
  readonly changed: () => void
  readonly signal: AbortSignal
}

async function watchKind(watched: Watched): Promise<void> {
  const { cluster, changed, signal } = watched
  let retry = RETRY_MS
  while (!signal.aborted) {
    const begun = performance.now()
    try {
      const version = await listVersion(cluster, watched)
      if (version === undefined) await delay(ABSENT_MS, undefined, { signal })
      else {
        changed()
        await watchFrom(watched, version)
      }
    } catch {
      // What is wrong shows in the state of the source: its next poll meets the same error.
    }
    // A server that ends each watch at once, or refuses each as too old, is not asked again and again either.
    if (performance.now() - begun > LONGEST_RETRY_MS) retry = RETRY_MS
    // Only the signal ends the wait early, and then the loop.
    await delay(retry * (1 + Math.random() / 4), undefined, { signal }).catch(() => undefined)
    retry = Math.min(retry * 2, LONGEST_RETRY_MS)
  }
}

/**
 * Watches from a resource version on, until the server can't go on from where it was (410) or ends a watch at once, or
 * the connection breaks.
 */
async function watchFrom(watched: Watched, resourceVersion: string): Promise<void> {
  let from: string | undefined = resourceVersion
  let begun: number
  do {
    begun = performance.now()
    from = await watchOnce(watched, from)
  } while (from !== undefined && !watched.signal.aborted && performance.now() - begun > SHORTEST_WATCH_MS)
}

/** One watch, until the server ends it; gives where the next begins, undefined where there is none to begin. */
async function watchOnce(
  { cluster, plural, namespace, changed, signal }: Watched,
  resourceVersion: string,
): Promise<string | undefined> {
  let from = resourceVersion
  const query = {
    watch: 'true',
    allowWatchBookmarks: 'true',
    resourceVersion,
    timeoutSeconds: String(WATCH_S),
  }
  const body = await cluster.get(plural, namespace, query, { signal, idleMs: IDLE_MS })
  if (body === undefined) return undefined
  for await (const line of linesOf(body, LONGEST_EVENT)) {
    if (line === '') continue
    const event = line === undefined ? undefined : (JSON.parse(line) as WatchEvent)
    if (event?.type === 'ERROR') return undefined
    if (event?.type !== 'BOOKMARK') changed()
    if (event === undefined) return undefined
    from = event.object.metadata?.resourceVersion ?? from
  }
  return from
}

interface WatchEvent {
  readonly type: string
  readonly object: { readonly metadata?: { readonly resourceVersion?: string } }
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
