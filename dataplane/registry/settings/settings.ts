import { resolve } from 'node:path'
import type { AuditSettings } from '../../config/audit/audit.ts'
import type { Loaded } from '../../config/load.ts'
import type { AuthConfig, DatabaseConfig } from '../../config/registry.ts'
import {
  DEFAULT_BODY_BYTES,
  DEFAULT_MANAGED_BYTES,
  DEFAULT_SOURCE_BYTES,
  type RegistryConfig,
} from '../../config/registry.ts'
import type { TelemetrySettings } from '../../config/telemetry.ts'
import { hostNames } from '../../server/hosts.ts'
import type { PostgresConfig } from '../../storage/sql-postgres.ts'
import type { StoreSettings } from '../store/apply/apply-settings.ts'
import { buildSchedule } from '../sync/build-schedule.ts'
import type { ScheduledSource } from '../sync/schedule.ts'
import { type AnsweredHosts, answeredHosts } from './host-check.ts'

/** A configuration in force, with resolved paths and durations. */
export interface RegistrySettings extends StoreSettings {
  readonly hash: string
  readonly schedules: readonly ScheduledSource[]
  readonly auth: AuthConfig
  readonly postgres: PostgresConfig | undefined
  readonly directory: string
  readonly limits: {
    readonly bodyBytes: number
    readonly sourceBytes: number
    readonly managedBytes: number
    readonly privateSources: 'allow' | 'deny'
  }
  readonly origins: readonly string[]
  readonly hosts: AnsweredHosts
  readonly telemetry: TelemetrySettings | undefined
  readonly audit: AuditSettings | undefined
  readonly logLevel: RegistryConfig['logLevel']
}

/** Resolves a configuration. Paths are relative to the configuration file's folder. */
export function resolveSettings(
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
    hosts: answeredHosts(
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
