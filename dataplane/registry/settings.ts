import type { Loaded } from '../config/load.ts'
import type { RegistryConfig } from '../config/registry.ts'
import { scheduleOf } from './sources/place.ts'
import type { ScheduledSource } from './sources/schedule.ts'
import type { StoreSettings } from './store/apply-settings.ts'

/** A configuration in force, with paths and durations resolved. */
export interface RegistrySettings extends StoreSettings {
  readonly hash: string
  readonly schedules: readonly ScheduledSource[]
  readonly registries: RegistryConfig['registries']
  /** Origins whose pages may read the consumer API. */
  readonly origins: readonly string[]
}

/** Relative paths are relative to the configuration file's folder. */
export function resolveSettings({ config, hash, directory }: Loaded<RegistryConfig>): RegistrySettings {
  return {
    hash,
    sources: config.sources.map(({ name }) => name),
    registries: config.registries,
    origins: config.cors?.origins ?? ['*'],
    schedules: config.sources.flatMap((source) => scheduleOf(source, { directory, publicOnly: false }) ?? []),
  }
}
