import { type BigIntStats, type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'

/** inotify tells most changes at once; this finds those that it misses (another mount, a replaced folder). */
const POLL_MS = 400
/** A writer that truncates and then writes is seen once, with the whole. */
const SETTLE_MS = 40

/**
 * Calls `look` after each change of the file that came after `first` was taken (by `stampOf`): written in place, replaced
 * by rename, or swapped by the `..data` link of a Kubernetes volume. One call at a time, and one more where the file
 * changed meanwhile; `look` does not throw. Ends with the signal.
 */
export function followFile(
  file: string,
  first: string,
  look: () => Promise<void>,
  signal: AbortSignal | undefined,
): void {
  let stamp = first
  let settle: NodeJS.Timeout | undefined
  let looking = false
  let again = false

  const run = async () => {
    if (looking) {
      again = true
      return
    }
    looking = true
    try {
      do {
        again = false
        await look()
      } while (again && !signal?.aborted)
    } finally {
      looking = false
    }
  }
  const begin = () => {
    // A look that fails all the same is not the last one.
    run().catch(() => {})
  }
  const changed = () => {
    clearTimeout(settle)
    settle = setTimeout(begin, SETTLE_MS)
    settle.unref()
  }

  const compare = (now: string) => {
    if (now === stamp || signal?.aborted) return
    stamp = now
    changed()
  }
  const poll = setInterval(() => {
    stampOf(file).then(compare, () => {})
  }, POLL_MS)
  poll.unref()

  const names = new Set([basename(file), '..data'])
  const watcher = watchFolder(dirname(resolve(file)), (name) => {
    if (name === null || names.has(name)) changed()
  })

  signal?.addEventListener(
    'abort',
    () => {
      clearInterval(poll)
      clearTimeout(settle)
      watcher?.close()
    },
    { once: true },
  )
}

/** Watches a folder. Where that can't be done (no inotify instance left, the folder replaced) the poll has to do. */
function watchFolder(folder: string, changed: (name: string | null) => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, (_event, name) => changed(name))
    watcher.on('error', () => watcher.close())
    return watcher
  } catch {
    return undefined
  }
}

/** Which content a path leads to now: changes with every write, rename and swapped link. */
export async function stampOf(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs }: BigIntStats = await stat(file, { bigint: true })
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`
  } catch {
    return 'absent'
  }
}
