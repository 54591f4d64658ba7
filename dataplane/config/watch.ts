import { dirname, resolve } from 'node:path'
import type { Static, TSchema } from 'typebox'
import { followFile, stampOf } from './follow-file.ts'
import { type Check, ConfigError, configParser, type Finding, type Loaded, readConfigText } from './load.ts'

export interface WatchOptions<T> {
  readonly check?: Check<T>
  /**
   * A new configuration, or the one in force again after a refused one. What it throws is reported as a refusal.
   * Calls never overlap.
   */
  onConfig(loaded: Loaded<T>): void | Promise<void>
  /** An invalid file: the configuration before it stays in force. Called once for each such content. */
  onRefused(findings: readonly Finding[]): void
  /** Ends the watch. */
  readonly signal?: AbortSignal
}

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
  // Stamped before it is read, so that a write in between is seen as a change.
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
      const config = parse(text, file)
      await options.onConfig({ config, hash, directory })
      seen = hash
    } catch (error) {
      refuse(hash, error)
    }
  }

  if (!options.signal?.aborted) followFile(file, stamp, reload, options.signal)
  return loaded
}
