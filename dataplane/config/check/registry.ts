import { registryEvents } from '../audit/event-types.ts'
import type { Finding } from '../load.ts'
import type { RegistryConfig } from '../registry.ts'
import { auditFindings } from './audit.ts'
import { duplicates } from './duplicates.ts'
import { originFindings } from './origins.ts'
import { authFindings } from './registry-auth.ts'
import { databaseFindings } from './registry-database.ts'
import { sourceFindings } from './registry-source.ts'
import { telemetryFindings } from './telemetry.ts'

/** Cross-field rules of the registry's configuration; sees only what its schema has accepted. */
export function checkRegistry(config: RegistryConfig): readonly Finding[] {
  const { sources, registries } = config
  const known = new Set(sources.map(({ name }) => name))
  return [
    ...duplicates(sources, ({ name }) => name, '/sources', '/name'),
    ...sources.flatMap((source, index) => sourceFindings(source, `/sources/${index}`)),
    ...duplicates(registries, ({ name }) => name, '/registries', '/name'),
    ...registries.flatMap((registry, index) => [
      ...duplicates(registry.sources, (name) => name, `/registries/${index}/sources`),
      ...registry.sources.flatMap((name, position) =>
        known.has(name)
          ? []
          : [
              {
                pointer: `/registries/${index}/sources/${position}`,
                message: `there is no source ${JSON.stringify(name)}`,
              },
            ],
      ),
    ]),
    ...authFindings(config.auth),
    ...databaseFindings(config.database),
    ...telemetryFindings(config.telemetry, '/telemetry'),
    ...auditFindings(config.audit, registryEvents),
    ...originFindings(config.cors?.origins ?? [], '/cors/origins'),
  ]
}
