import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Finding } from '../../config/load.ts'
import { isLong, readAside } from '../../config/read/aside.ts'
import { parseRegistry } from '../../config/read/registry.ts'
import type { RegistryConfig } from '../../config/registry.ts'
import { watchConfig } from '../../config/watch.ts'
import { PublicError } from '../../server/errors.ts'
import { type RegistrySettings, resolveSettings } from './settings.ts'

/** The configuration in force, which follows its file. */
export interface Configuration {
  current(): RegistrySettings
  refused(): readonly Finding[]
  /**
   * Puts the configuration in force by `apply`, and each later one. If `apply` throws, that one is refused. While the
   * database is away (a PublicError `unavailable`) it waits.
   */
  begin(apply: (settings: RegistrySettings) => Promise<void>): Promise<void>
  /** Called with the hash of each configuration that comes in force later, and without one if it is refused. */
  onReload: ((hash: string | undefined) => void) | undefined
}

interface ConfigurationLocation {
  readonly file: string
  /** The host of the public listener, if one is given. Requests to it are accepted. */
  readonly listenHost: string | undefined
}

/** Loads the configuration and follows it until the signal. Throws a ConfigError if the first one is invalid. */
export async function followConfiguration(
  { file, listenHost }: ConfigurationLocation,
  signal: AbortSignal,
  log: Logger,
): Promise<Configuration> {
  const begun = Promise.withResolvers<(settings: RegistrySettings) => Promise<void>>()
  let findings: readonly Finding[] = []
  const configuration: Configuration = {
    current: () => current,
    refused: () => findings,
    async begin(apply) {
      await apply(current)
      begun.resolve(apply)
    },
    onReload: undefined,
  }

  let isServing = false
  const first = await watchConfig(file, {
    read: (text, at) =>
      isServing && isLong(text) ? readAside<RegistryConfig>('registry', text, at) : parseRegistry(text, at),
    signal,
    async onConfig(loaded) {
      const apply = await begun.promise
      const next = resolveSettings(loaded, listenHost)
      while (!(await applied(apply(next)))) {
        if (findings.length === 0) log.warn({ config: next.hash }, 'a new configuration waits for the database')
        findings = [{ pointer: '', message: 'waits for the database', file }]
        await delay(AGAIN_MS, undefined, { signal })
      }
      current = next
      findings = []
      log.info({ config: next.hash }, 'a new configuration is in force')
      configuration.onReload?.(next.hash)
    },
    onRefused(refused) {
      findings = refused
      log.error({ findings }, 'the configuration is refused; the previous one stays in force')
      configuration.onReload?.(undefined)
    },
  })
  isServing = true
  let current = resolveSettings(first, listenHost)

  return configuration
}

const AGAIN_MS = 1_000

/** Tells whether the configuration was applied; false while the database is away. */
async function applied(applying: Promise<void>): Promise<boolean> {
  try {
    await applying
    return true
  } catch (error) {
    if (error instanceof PublicError && error.code === 'unavailable') return false
    throw error
  }
}
