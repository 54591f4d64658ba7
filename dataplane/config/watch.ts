import { type BigIntStats, type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { ConfigError, type Finding, type Loaded, readConfigText } from './load.ts'

export interface WatchOptions<T> {
  /** Turns the file's text into a configuration; throws a ConfigError if it is invalid. */
  readonly read: (text: string, file: string) => T | Promise<T>
  /**
   * Gets a new configuration, or the one in force again after a refusal. A thrown error is a refusal. Calls never
   * overlap.
   */
  onConfig(loaded: Loaded<T>): void | Promise<void>
  onRefused(findings: readonly Finding[]): void
  readonly signal?: AbortSignal
}

/**
 * Loads a configuration file and follows its changes (see `followFile`). The first load throws a ConfigError; later
 * ones call back.
 */
export async function watchConfig<T>(file: string, options: WatchOptions<T>): Promise<Loaded<T>> {
  const { read } = options
  const directory = dirname(resolve(file))
  // The stamp is taken before the file is read, so that a write in between is seen as a change.
  const stamp = await readStamp(file)
  const first = await readConfigText(file)
  const loaded: Loaded<T> = { config: await read(first.text, file), hash: first.hash, directory }

  let seen = first.hash

  const refuse = (key: string, error: unknown) => {
    seen = key
    options.onRefused(
      error instanceof ConfigError
        ? error.findings
        : [{ pointer: '', message: `can’t be applied: ${(error as Error).message}`, file }],
    )
  }

  const reload = async () => {
    let text: string
    let hash: string
    try {
      ;({ text, hash } = await readConfigText(file))
    } catch (error) {
      const key = (error as Error).message
      if (key !== seen) refuse(key, error)
      return
    }
    if (hash === seen) return
    try {
      const config = await read(text, file)
      await options.onConfig({ config, hash, directory })
      seen = hash
    } catch (error) {
      refuse(hash, error)
    }
  }

  if (!options.signal?.aborted) followFile(file, stamp, reload, options.signal)
  return loaded
}

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
