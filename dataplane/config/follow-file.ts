import { type BigIntStats, type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'

/** inotify reports most changes at once. Polling finds those that it misses (another mount, a replaced folder). */
const POLL_MS = 400
/** The wait after a change. A writer that truncates and then writes is seen once, with the whole content. */
const SETTLE_MS = 40

/**
 * Calls `onChange` after each change of the file since `first` (from `readStamp`): written in place, replaced by
 * rename, or swapped by the `..data` link of a Kubernetes volume. Calls never overlap. `onChange` handles its own
 * errors.
 */
export function followFile(
  file: string,
  first: string,
  onChange: () => Promise<void>,
  signal: AbortSignal | undefined,
): void {
  let stamp = first
  let settle: NodeJS.Timeout | undefined
  let isRunning = false
  let runAgain = false

  const run = async () => {
    if (isRunning) {
      runAgain = true
      return
    }
    isRunning = true
    try {
      do {
        runAgain = false
        await onChange()
      } while (runAgain && !signal?.aborted)
    } finally {
      isRunning = false
    }
  }
  const start = () => {
    run().catch(() => {
      // `onChange` has reported its error; the next change calls it again.
    })
  }
  const schedule = () => {
    clearTimeout(settle)
    settle = setTimeout(start, SETTLE_MS)
    settle.unref()
  }

  const scheduleIfChanged = (now: string) => {
    if (now === stamp || signal?.aborted) return
    stamp = now
    schedule()
  }
  const pollTimer = setInterval(() => {
    readStamp(file).then(scheduleIfChanged, () => {
      // `readStamp` returns `absent` instead of rejecting.
    })
  }, POLL_MS)
  pollTimer.unref()

  const names = new Set([basename(file), '..data'])
  const watcher = watchFolder(dirname(resolve(file)), (name) => {
    if (name === null || names.has(name)) schedule()
  })

  signal?.addEventListener(
    'abort',
    () => {
      clearInterval(pollTimer)
      clearTimeout(settle)
      watcher?.close()
    },
    { once: true },
  )
}

/** Watches a folder. If that fails (no inotify instance left, the folder replaced), polling finds the changes. */
function watchFolder(folder: string, changed: (name: string | null) => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, (_event, name) => changed(name))
    watcher.on('error', () => watcher.close())
    return watcher
  } catch {
    return undefined
  }
}

/** Identifies the file that a path leads to and its version: differs after each write, rename and swapped link. */
export async function readStamp(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs }: BigIntStats = await stat(file, { bigint: true })
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`
  } catch {
    return 'absent'
  }
}
