import { isUtf8 } from 'node:buffer'
import type { IncomingVersion } from '../catalog/entry.ts'
import { isObject, upstreamTime } from '../catalog/official-meta.ts'
import { parseExactly } from './parse-exactly.ts'
import { type Problem, readServer, readSkill } from './read-entry.ts'
import { SourceError } from './source-error.ts'

export interface Catalog {
  readonly versions: readonly IncomingVersion[]
  /** What was left out. */
  readonly problems: readonly Problem[]
}

/**
 * Reads a registry file (`{"$schema", "version", "meta", "data": {"servers": [], "skills": []}}`) or a list response of
 * the registry API v0.1 (`{"servers": [{"server", "_meta"}], "metadata"}`).
 *
 * One bad entry does not take the others down: it is left out and told of. Throws a SourceError where the whole won't
 * do; a file in which nothing is usable is taken for a mistake rather than for an empty catalog.
 */
export function parseCatalog(bytes: Buffer): Catalog {
  const catalog = readItems(itemsOf(parseJson(bytes)))
  const [first] = catalog.problems
  if (catalog.versions.length === 0 && first !== undefined)
    throw new SourceError(
      'no_usable_entry',
      `none of ${catalog.problems.length} entries is usable; ${first.pointer}: ${first.message}`,
    )
  return catalog
}

/** A page of a list response. */
export interface Page extends Catalog {
  /** Entries on the page, those that were left out among them. */
  readonly count: number
  readonly nextCursor: string | undefined
  /** The latest time of change that the upstream tells, in UTC with milliseconds. */
  readonly newest: string | undefined
}

/** Reads a page of the registry API v0.1. Throws a SourceError where it is none. */
export function parsePage(bytes: Buffer): Page {
  const answer = parseJson(bytes)
  if (!isObject(answer) || !Array.isArray(answer['servers']))
    throw new SourceError('wrong_shape', 'the answer is no list response ({"servers": [{"server": …}], "metadata"})')
  const { nextCursor } = isObject(answer['metadata']) ? answer['metadata'] : {}
  const items: readonly unknown[] = answer['servers']
  return {
    ...readItems(listItems(items)),
    count: items.length,
    nextCursor: typeof nextCursor === 'string' && nextCursor !== '' ? nextCursor : undefined,
    newest: items
      .map((item) => (isObject(item) ? upstreamTime(item['_meta']) : undefined))
      .filter((time) => time !== undefined)
      .sort()
      .at(-1),
  }
}

function readItems(items: readonly Item[]): Catalog {
  const versions: IncomingVersion[] = []
  const problems: Problem[] = []
  const places = new Map<string, string>()
  for (const { pointer, read } of items) {
    const entry = read()
    if ('message' in entry) {
      problems.push(entry)
      continue
    }
    const key = `${entry.type} ${entry.name} ${entry.version}`
    const first = places.get(key)
    if (first === undefined) {
      places.set(key, pointer)
      versions.push(entry)
    } else problems.push({ pointer, message: `is the same version as ${first}` })
  }
  return { versions, problems }
}

function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new SourceError('not_json', 'the file is not UTF-8')
  try {
    return parseExactly(bytes.toString().replace(/^\uFEFF/, ''))
  } catch (error) {
    throw new SourceError('not_json', `the file is not JSON: ${(error as Error).message.slice(0, 200)}`)
  }
}

interface Item {
  readonly pointer: string
  read(): IncomingVersion | Problem
}

function itemsOf(file: unknown): readonly Item[] {
  if (isObject(file) && isObject(file['data'])) {
    const { servers, skills } = file['data']
    return [
      ...listAt(servers, '/data/servers').map((server, index) => {
        const pointer = `/data/servers/${index}`
        return { pointer, read: () => readServer(server, undefined, pointer) }
      }),
      ...(skills === undefined ? [] : listAt(skills, '/data/skills')).map((skill, index) => {
        const pointer = `/data/skills/${index}`
        return { pointer, read: () => readSkill(skill, pointer) }
      }),
    ]
  }
  if (isObject(file) && Array.isArray(file['servers'])) return listItems(file['servers'])
  throw new SourceError(
    'wrong_shape',
    'the file is neither a registry file ({"version", "meta", "data": {"servers": […]}}) nor a list response ({"servers": [{"server": …}]})',
  )
}

function listItems(items: readonly unknown[]): readonly Item[] {
  return items.map((item, index) => {
    const pointer = `/servers/${index}/server`
    const { server, _meta } = isObject(item) ? item : {}
    return { pointer, read: () => readServer(server, _meta, pointer) }
  })
}

function listAt(value: unknown, pointer: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw new SourceError('wrong_shape', `${pointer}: must be a list`)
}
