import { isObject } from '../../../../crds/settings/json.ts'
import { compileGlob } from '../../../config/glob.ts'
import type { SourceConfig } from '../../../config/registry.ts'
import { type IncomingVersion, listMembers, PUBLISHER_PROVIDED } from '../../catalog/entry.ts'

type Filter = NonNullable<SourceConfig['filter']>
type Lists = NonNullable<Filter['names']>

/** Creates the filter of a source. Globs match names, tags match exactly, and both must pass. Exclusions win. */
export function createFilter(filter: Filter | undefined): (version: IncomingVersion) => boolean {
  const names = filter?.names && createMatcher(filter.names, compileGlob)
  const tags = filter?.tags && createMatcher(filter.tags, (tag) => (other) => other === tag)
  return function passesFilter(version) {
    return (names?.([version.name]) ?? true) && (tags?.(readTags(version.document)) ?? true)
  }
}

type Matches = (text: string) => boolean

function createMatcher({ include, exclude }: Lists, compile: (pattern: string) => Matches) {
  const included = include?.map(compile)
  const excluded = exclude?.map(compile) ?? []
  const some = (matches: readonly Matches[], texts: readonly string[]) =>
    texts.some((text) => matches.some((match) => match(text)))
  return (texts: readonly string[]) =>
    !some(excluded, texts) && (included === undefined || included.length === 0 || some(included, texts))
}

/** Reads the tags that publishers gave: `[publisher][package or remote].tags` in their block of `_meta`. */
function readTags(document: string): readonly string[] {
  const { _meta } = JSON.parse(document) as { _meta?: Record<string, unknown> }
  return listMembers(_meta?.[PUBLISHER_PROVIDED])
    .flatMap(listMembers)
    .flatMap((block) => (isObject(block) && Array.isArray(block['tags']) ? block['tags'] : []))
    .filter((tag) => typeof tag === 'string')
}
