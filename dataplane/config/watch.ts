import { type BigIntStats, type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import type { Static, TSchema } from 'typebox'
import { type Check, ConfigError, configParser, type Finding, type Loaded, readConfigText } from './load.ts'

export interface WatchOptions<T> {
  readonly check?: Check<T>
  /**
   * A new configuration, or the one in force again after a refused one. What it throws is reported as a refusal.
   * Calls never overlap.
   */
  onConfig(loaded: Loaded<T>): void | Promise<void>
  /** A file that won't do: the configuration before it stays in force. Called once for each such content. */
  onRefused(findings: readonly Finding[]): void
  /** Ends the watch. */
  readonly signal?: AbortSignal
}

/** inotify tells most changes at once; this finds those that it misses (another mount, a replaced folder). */
const POLL_MS = 400
/** A writer that truncates and then writes is seen once, with the whole. */
const SETTLE_MS = 40

/**
 * Loads a configuration file and follows its changes: written in place, replaced by rename, or swapped as a whole by
 * the `..data` link of a Kubernetes volume. The first load throws a ConfigError; later ones call back.
 */
export async function watchConfig<S extends TSchema>(
  file: string,
  schema: S,
  options: WatchOptions<Static<S>>,
): Promise<Loaded<Static<S>>> {
  const parse = configParser(schema, options.check)
  const directory = dirname(resolve(file))
  // Stamped before it is read: what is written in between shows up as a change.
  const stamp = await stampOf(file)
  const first = await readConfigText(file)
  const loaded: Loaded<Static<S>> = { config: parse(first.text, file), hash: first.hash, directory }

  let seen = first.hash

  const refuse = (key: string, error: unknown) => {
    seen = key
    options.onRefused(
      error instanceof ConfigError
        ? error.findings
        : [{ pointer: '', message: `can’t be put in force: ${(error as Error).message}`, file }],
    )
  }

  const look = async () => {
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
      const config = parse(text, file)
      await options.onConfig({ config, hash, directory })
      seen = hash
    } catch (error) {
      refuse(hash, error)
    }
  }

  if (!options.signal?.aborted) followFile(file, stamp, look, options.signal)
  return loaded
}

/** Calls `look` after each change of the file; one call at a time, and one more where the file changed meanwhile. */
function followFile(file: string, first: string, look: () => Promise<void>, signal: AbortSignal | undefined): void {
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
    do {
      again = false
      await look()
    } while (again && !signal?.aborted)
    looking = false
  }
  const changed = () => {
    clearTimeout(settle)
    settle = setTimeout(run, SETTLE_MS)
    settle.unref()
  }

  const poll = setInterval(async () => {
    const now = await stampOf(file)
    if (now === stamp || signal?.aborted) return
    stamp = now
    changed()
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
async function stampOf(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs }: BigIntStats = await stat(file, { bigint: true })
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`
  } catch {
    return 'absent'
  }
}
