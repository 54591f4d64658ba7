import { dirname, resolve } from 'node:path'
import { followFile, readStamp } from './follow-file.ts'
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
