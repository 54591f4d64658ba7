import { setTimeout as delay } from 'node:timers/promises'
import type { LocationOf } from '../format/source.ts'
import { type Cluster, EXPORTED_KINDS, type ListOptions, listVersion, openCluster } from './cluster.ts'

/** Events come in bursts, and one poll covers a burst. */
const DEBOUNCE_MS = 200
const WATCH_S = 300
/** A connection without a byte for this time counts as dead, since bookmarks come about once a minute. */
const IDLE_MS = 120_000
const RETRY_MS = 1_000
const SHORTEST_WATCH_MS = 1_000
const LONGEST_RETRY_MS = 30_000
/** The most bytes of an event that are held. A longer event ends the watch, and counts as a change. */
const LONGEST_EVENT = 4 * 1024 * 1024
/** The interval for asking again for a kind that the API server does not have. */
const ABSENT_MS = 30_000

/** Calls `poll` after changes of the exported kinds, and whenever changes may have been missed, until the signal. */
export function watchKubernetes(location: LocationOf<'kubernetes'>, poll: () => void, signal: AbortSignal): void {
  const cluster = openCluster(location)
  let debounce: NodeJS.Timeout | undefined
  const onChange = () => {
    debounce ??= setTimeout(() => {
      debounce = undefined
      poll()
    }, DEBOUNCE_MS)
  }
  signal.addEventListener(
    'abort',
    () => {
      clearTimeout(debounce)
      cluster[Symbol.asyncDispose]().then(undefined, () => {
        // The watch has ended, so errors of closing its connections don't matter.
      })
    },
    { once: true },
  )
  for (const { plural } of EXPORTED_KINDS)
    for (const namespace of location.namespaces)
      watchKind({ cluster, plural, namespace, changed: onChange, signal }).catch(() => {
        // It handles its own errors.
      })
}

interface Watched extends ListOptions {
  readonly cluster: Cluster
  readonly changed: () => void
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
      // The next poll meets the error too, and shows it in the state of the source.
    }
    // A server that ends each watch at once, or refuses each as too old, is asked less and less often, too.
    if (performance.now() - begun > LONGEST_RETRY_MS) retry = RETRY_MS
    // The wait only fails when the signal ends the loop.
    await delay(retry * (1 + Math.random() / 4), undefined, { signal }).catch(() => undefined)
    retry = Math.min(retry * 2, LONGEST_RETRY_MS)
  }
}

/** Watches from a resource version on, until a 410, a watch that ends at once, or a broken connection. */
async function watchFrom(watched: Watched, resourceVersion: string): Promise<void> {
  let from: string | undefined = resourceVersion
  let begun: number
  do {
    begun = performance.now()
    from = await watchOnce(watched, from)
  } while (from !== undefined && !watched.signal.aborted && performance.now() - begun > SHORTEST_WATCH_MS)
}

/** Runs one watch until the server ends it. Returns the version at which the next may begin, if there is one. */
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
  for await (const line of readLines(body, LONGEST_EVENT)) {
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

/** Yields the lines of a body. For a line over the limit it yields undefined, and ends. */
async function* readLines(body: AsyncIterable<Buffer>, longest: number): AsyncGenerator<string | undefined> {
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
