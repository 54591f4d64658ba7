import { resolve } from 'node:path'
import type { Loaded } from '../config/load.ts'
import { DEFAULT_BODY_BYTES, type RegistryConfig } from '../config/registry.ts'
import type { AuthConfig } from '../config/registry-auth.ts'
import type { DatabaseConfig } from '../config/registry-database.ts'
import type { PostgresConfig } from '../storage/sql-postgres.ts'
import { scheduleOf } from './sources/place.ts'
import type { ScheduledSource } from './sources/schedule.ts'
import type { StoreSettings } from './store/apply-settings.ts'

/** A configuration in force, with paths and durations resolved. */
export interface RegistrySettings extends StoreSettings {
  readonly hash: string
  readonly schedules: readonly ScheduledSource[]
  readonly auth: AuthConfig
  /** Absent: a file of SQLite. */
  readonly postgres: PostgresConfig | undefined
  /** Folder that paths are relative to. */
  readonly directory: string
  readonly limits: { readonly bodyBytes: number; readonly privateSources: 'allow' | 'deny' }
  /** Origins whose pages may read the consumer API. */
  readonly origins: readonly string[]
}

/** Relative paths are relative to the configuration file's folder. */
export function resolveSettings({ config, hash, directory }: Loaded<RegistryConfig>): RegistrySettings {
  return {
    hash,
    directory,
    auth: config.auth,
    postgres: config.database && postgresOf(config.database, directory),
    limits: {
      bodyBytes: config.limits?.bodyBytes ?? DEFAULT_BODY_BYTES,
      privateSources: config.limits?.privateSources ?? 'deny',
    },
    sources: config.sources.map(({ name, claims = {}, ...rest }) => ({ name, claims, config: rest })),
    registries: config.registries.map(({ claims = {}, ...registry }) => ({ ...registry, claims })),
    origins: config.cors?.origins ?? ['*'],
    schedules: config.sources.flatMap((source) => scheduleOf(source, { directory, publicOnly: false }) ?? []),
  }
}

function postgresOf(database: DatabaseConfig, directory: string): PostgresConfig {
  const { urlFile, passwordFile, pgpassFile, caFile, sslMode = 'require' } = database
  const absolute = (file: string | undefined) => file && resolve(directory, file)
  return {
    ...database,
    sslMode,
    urlFile: absolute(urlFile),
    passwordFile: absolute(passwordFile),
    pgpassFile: absolute(pgpassFile),
    caFile: absolute(caFile),
  }
}
