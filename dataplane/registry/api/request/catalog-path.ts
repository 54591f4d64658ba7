import type { EntryType } from '../../catalog/entry.ts'

interface RequestTarget {
  readonly path: string
  readonly query: URLSearchParams
}

const NO_QUERY = new URLSearchParams()

/** Reads a request's target, which may come with scheme and host (RFC 9112 section 3.2.2). */
export function requestTarget(url: string): RequestTarget {
  const local = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '')
  const end = local.indexOf('?')
  if (end === -1) return { path: local, query: NO_QUERY }
  return { path: local.slice(0, end), query: new URLSearchParams(local.slice(end + 1)) }
}

/** A parsed path of the consumer API. Its parts are decoded, but not checked yet. */
export interface CatalogPath {
  readonly registry: string
  readonly type: EntryType
  readonly kind: 'list' | 'versions' | 'version'
  readonly name: string
  readonly version: string
}

const ROOT = '/registry/'

/**
 * Reads a raw path; undefined if it is not of the consumer API. The slash of an entry's name may be encoded or, as some
 * clients and proxies send it, not.
 */
export function catalogPath(path: string): CatalogPath | undefined {
  if (!path.startsWith(ROOT)) return undefined
  const segments = path.slice(ROOT.length).split('/')
  if (segments.includes('')) return undefined
  const [registry = '', api, collection, ...rest] = segments.map(decoded)
  if (api !== 'v0.1') return undefined
  if (collection === 'servers') return entryPath(registry, 'server', rest)
  if (collection === 'x' && rest[0] === 'portico' && rest[1] === 'skills')
    return entryPath(registry, 'skill', rest.slice(2))
  return undefined
}

function entryPath(registry: string, type: EntryType, rest: readonly string[]): CatalogPath | undefined {
  if (type === 'skill' && isSkillName(rest))
    return { registry, type, kind: 'version', name: rest.join('/'), version: 'latest' }
  const [first = '', second = '', third = '', fourth = ''] = rest
  const path = { registry, type, name: first, version: '' }
  const joined = { ...path, name: `${first}/${second}` }
  switch (rest.length) {
    case 0:
      return { ...path, kind: 'list' }
    case 2:
      return second === 'versions' ? { ...path, kind: 'versions' } : undefined
    case 3:
      // An entry may be called `versions`, and so may a version.
      if (third === 'versions' && !first.includes('/')) return { ...joined, kind: 'versions' }
      return second === 'versions' ? { ...path, kind: 'version', version: third } : undefined
    case 4:
      return third === 'versions' ? { ...joined, kind: 'version', version: fourth } : undefined
    default:
      return undefined
  }
}

/** Tells whether the segments are the name of a skill and nothing else. Its slash may be encoded, in one segment. */
function isSkillName([first = '', second = '', ...others]: readonly string[]): boolean {
  if (others.length > 0) return false
  const isWhole = first.includes('/')
  return second === '' ? isWhole : !(second === 'versions' && isWhole)
}

function decoded(segment: string): string {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
