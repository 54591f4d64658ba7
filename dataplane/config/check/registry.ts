import { parseDuration } from '../../../crds/shared/duration.ts'
import { compileGlob } from '../glob.ts'
import type { Finding } from '../load.ts'
import type { RegistryConfig } from '../registry.ts'
import { duplicates } from './duplicates.ts'

const SMALLEST_INTERVAL_MS = 1000

/** Cross-field rules of the registry's configuration; sees only what its schema has accepted. */
export function checkRegistry(config: RegistryConfig): readonly Finding[] {
  const { sources, registries } = config
  const known = new Set(sources.map(({ name }) => name))
  return [
    ...duplicates(sources, ({ name }) => name, '/sources', '/name'),
    ...sources.flatMap(({ syncPolicy }, index) =>
      syncPolicy?.interval !== undefined && parseDuration(syncPolicy.interval) < SMALLEST_INTERVAL_MS
        ? [{ pointer: `/sources/${index}/syncPolicy/interval`, message: 'must be at least 1s' }]
        : [],
    ),
    ...sources.flatMap(({ filter }, index) => [
      ...globFindings(filter?.names?.include, `/sources/${index}/filter/names/include`),
      ...globFindings(filter?.names?.exclude, `/sources/${index}/filter/names/exclude`),
    ]),
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
    ...(config.cors?.origins ?? []).flatMap((origin, index) =>
      origin === '*' || URL.parse(origin)?.origin === origin
        ? []
        : [{ pointer: `/cors/origins/${index}`, message: 'is neither * nor an origin such as https://example.com' }],
    ),
  ]
}

function globFindings(globs: readonly string[] = [], pointer: string): readonly Finding[] {
  return globs.flatMap((glob, index) => {
    try {
      compileGlob(glob)
      return []
    } catch (error) {
      return [{ pointer: `${pointer}/${index}`, message: (error as TypeError).message }]
    }
  })
}
