import type { SourceConfig } from '../../config/registry.ts'
import type { IncomingVersion } from '../catalog/entry.ts'
import { isObject } from '../catalog/official-meta.ts'

type Filter = NonNullable<SourceConfig['filter']>
type Lists = NonNullable<Filter['names']>

const PUBLISHER_PROVIDED = 'io.modelcontextprotocol.registry/publisher-provided'

/**
 * Makes a source's filter. Names are matched by globs (`*` crosses `/`, `?` is one character, `[a-z]` and `[!a-z]` a
 * class), tags as they are. An excluded one is out; where there is an include list something must match; names and tags
 * must both agree.
 */
export function createFilter(filter: Filter | undefined): (version: IncomingVersion) => boolean {
  const names = filter?.names && matcher(filter.names, globMatcher)
  const tags = filter?.tags && matcher(filter.tags, (tag) => (other) => other === tag)
  return function passesFilter(version) {
    return (names?.([version.name]) ?? true) && (tags?.(tagsOf(version.document)) ?? true)
  }
}

type Matches = (text: string) => boolean

function matcher({ include, exclude }: Lists, compile: (pattern: string) => Matches) {
  const included = include?.map(compile)
  const excluded = exclude?.map(compile) ?? []
  const some = (matches: readonly Matches[], texts: readonly string[]) =>
    texts.some((text) => matches.some((match) => match(text)))
  return (texts: readonly string[]) =>
    !some(excluded, texts) && (included === undefined || included.length === 0 || some(included, texts))
}

function globMatcher(glob: string): Matches {
  const source = glob.replace(/\*+|\?|\[!?[^\]]+\]|[^*?[]+|\[/g, (part) => {
    if (part.startsWith('*')) return '.*'
    if (part === '?') return '.'
    if (part.length > 2 && part.startsWith('[') && part.endsWith(']')) return classOf(part)
    return part.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  })
  const pattern = new RegExp(`^${source}$`, 's')
  return (text) => pattern.test(text)
}

function classOf(part: string): string {
  const negated = part.startsWith('[!')
  const members = part.slice(negated ? 2 : 1, -1).replace(/[\\^[]/g, '\\$&')
  return `[${negated ? '^' : ''}${members}]`
}

/** Tags stand in the publisher's block of the document: `[publisher][package or remote].tags`. */
function tagsOf(document: string): readonly string[] {
  const { _meta } = JSON.parse(document) as { _meta?: Record<string, unknown> }
  return membersOf(_meta?.[PUBLISHER_PROVIDED])
    .flatMap(membersOf)
    .flatMap((block) => (isObject(block) && Array.isArray(block['tags']) ? block['tags'] : []))
    .filter((tag) => typeof tag === 'string')
}

function membersOf(value: unknown): readonly unknown[] {
  return isObject(value) ? Object.values(value) : []
}
