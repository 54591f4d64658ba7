import { resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { AuditSettings } from '../../config/audit/audit.ts'
import type { Finding, Loaded } from '../../config/load.ts'
import { isLong, readAside } from '../../config/read/aside.ts'
import { parseRegistry } from '../../config/read/registry.ts'
import {
  type AuthConfig,
  type DatabaseConfig,
  DEFAULT_BODY_BYTES,
  DEFAULT_MANAGED_BYTES,
  DEFAULT_SOURCE_BYTES,
  type RegistryConfig,
} from '../../config/registry.ts'
import type { TelemetrySettings } from '../../config/telemetry.ts'
import { watchConfig } from '../../config/watch.ts'
import { PublicError } from '../../server/errors.ts'
import { hostNames } from '../../server/hosts.ts'
import type { PostgresConfig } from '../../storage/sql-postgres.ts'
import type { StoreSettings } from '../store/apply/apply-settings.ts'
import { buildSchedule, type ScheduledSource } from '../sync/schedule.ts'
import { type AnsweredHosts, createAnsweredHosts } from './hosts-and-origins.ts'

/** The configuration in force. It follows its file. */
export interface Configuration {
  current(): RegistrySettings
  refused(): readonly Finding[]
  /**
   * Puts the current configuration in force by `apply`, and later each new one. A new one for which `apply` throws is
   * refused, or waits if the database is unreachable (a PublicError `unavailable`).
   */
  begin(apply: (settings: RegistrySettings) => Promise<void>): Promise<void>
  /** Called with the hash of each new configuration in force, and without one for a refused configuration. */
  onReload: ((hash: string | undefined) => void) | undefined
}

interface ConfigurationLocation {
  readonly file: string
  /** The host of the public listener, if it has one. Requests that name it are accepted. */
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
      while (!(await tryApply(apply(next)))) {
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

/** Waits until a configuration is applied. False if the database is unreachable. */
async function tryApply(applying: Promise<void>): Promise<boolean> {
  try {
    await applying
    return true
  } catch (error) {
    if (error instanceof PublicError && error.code === 'unavailable') return false
    throw error
  }
}

/** A configuration with resolved paths and durations. */
export interface RegistrySettings extends StoreSettings {
  readonly hash: string
  readonly schedules: readonly ScheduledSource[]
  readonly auth: AuthConfig
  readonly postgres: PostgresConfig | undefined
  readonly directory: string
  readonly limits: Required<NonNullable<RegistryConfig['limits']>>
  readonly origins: readonly string[]
  readonly hosts: AnsweredHosts
  readonly telemetry: TelemetrySettings | undefined
  readonly audit: AuditSettings | undefined
  readonly logLevel: RegistryConfig['logLevel']
}

/** Resolves a configuration. Paths are relative to the configuration file's folder. */
function resolveSettings(
  { config, hash, directory }: Loaded<RegistryConfig>,
  listenHost: string | undefined,
): RegistrySettings {
  const sourceBytes = config.limits?.sourceBytes ?? DEFAULT_SOURCE_BYTES
  return {
    hash,
    directory,
    auth: config.auth,
    postgres: config.database && buildPostgres(config.database, directory),
    telemetry: config.telemetry,
    audit: config.audit,
    logLevel: config.logLevel,
    limits: {
      bodyBytes: config.limits?.bodyBytes ?? DEFAULT_BODY_BYTES,
      sourceBytes,
      managedBytes: config.limits?.managedBytes ?? DEFAULT_MANAGED_BYTES,
      privateSources: config.limits?.privateSources ?? 'deny',
    },
    sources: config.sources.map(({ name, claims = {}, ...rest }) => ({ name, claims, config: rest })),
    registries: config.registries.map(({ claims = {}, ...registry }) => ({ ...registry, claims })),
    origins: config.cors?.origins ?? ['*'],
    hosts: createAnsweredHosts(
      hostNames(
        [config.auth.oauth?.resourceUrl],
        [...(config.allowedHosts ?? []), ...(listenHost ? [listenHost] : [])],
      ),
    ),
    schedules: config.sources.flatMap(
      (source) => buildSchedule(source, { directory, publicOnly: false, sourceBytes }) ?? [],
    ),
  }
}

function buildPostgres(database: DatabaseConfig, directory: string): PostgresConfig {
  const { urlFile, passwordFile, pgpassFile, caFile } = database
  const absolute = (file: string | undefined) => file && resolve(directory, file)
  return {
    ...database,
    urlFile: absolute(urlFile),
    passwordFile: absolute(passwordFile),
    pgpassFile: absolute(pgpassFile),
    caFile: absolute(caFile),
  }
}
