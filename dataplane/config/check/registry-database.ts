import type { Finding } from '../load.ts'
import type { DatabaseConfig } from '../registry.ts'

const AT = '/database'
const PARTS = ['host', 'user', 'database'] as const

/** A database is named once: by a URL, by a file of one, or by its parts. */
export function databaseFindings(config: DatabaseConfig | undefined): readonly Finding[] {
  if (config === undefined) return []
  const given = [config.url, config.urlFile, config.host].filter((place) => place !== undefined).length
  if (given !== 1) return [{ pointer: AT, message: 'must have exactly one of url, urlFile and host' }]
  if (config.host !== undefined)
    return [
      ...PARTS.flatMap((part) =>
        config[part] === undefined ? [{ pointer: `${AT}/${part}`, message: 'is required beside host' }] : [],
      ),
      ...(config.passwordFile !== undefined && config.pgpassFile !== undefined
        ? [{ pointer: `${AT}/pgpassFile`, message: 'is set instead of passwordFile' }]
        : []),
    ]
  return (['port', 'user', 'passwordFile', 'pgpassFile', 'database'] as const).flatMap((part) =>
    config[part] === undefined ? [] : [{ pointer: `${AT}/${part}`, message: 'is part of the URL' }],
  )
}
