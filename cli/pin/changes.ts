/** What has changed between the approved text of a definition and the one that is shown now, for reviewers. */
import { isObject } from '../../crds/settings/json.ts'
import { codePoints, decodeTags, hasHidden, shown } from './hidden.ts'
import type { ListName } from './pinned.ts'

export const LABELS = [
  'new field',
  'instructions changed',
  'permission hint changed',
  'new link',
  'hidden characters',
  'wording only',
] as const
export type Label = (typeof LABELS)[number]

interface MemberChange {
  readonly pointer: string
  readonly before: unknown
  readonly after: unknown
}

const MISSING: unique symbol = Symbol('missing')
const LINK = /\bhttps?:\/\/[^\s"'<>)\]}]+/gi
const HINTS = new Set(['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'])
/** Members whose texts models and people read, and nothing else does. */
const WORDING = new Set(['description', 'title'])
const MOST = 100
const LONGEST = 2_000

const step = (key: string) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`

/** Lists the members that differ, by pointer. The depth of definitions is bounded by their digests. */
function* membersThatDiffer(before: unknown, after: unknown, pointer: string): Generator<MemberChange> {
  if (Object.is(before, after)) return
  const both = [before, after]
  if (both.every(isObject) || both.every(Array.isArray)) {
    const [old, now] = both as [Record<string, unknown>, Record<string, unknown>]
    const value = (of: Record<string, unknown>, key: string) => (Object.hasOwn(of, key) ? of[key] : MISSING)
    for (const key of new Set([...Object.keys(old), ...Object.keys(now)]))
      yield* membersThatDiffer(value(old, key), value(now, key), pointer + step(key))
    return
  }
  yield { pointer, before, after }
}

const linksIn = (value: unknown) =>
  new Set((value === MISSING ? '' : (JSON.stringify(value) ?? '')).match(LINK)?.map((link) => link.toLowerCase()) ?? [])

const lastStep = (pointer: string) => pointer.slice(pointer.lastIndexOf('/') + 1)

const formatValue = (value: unknown): string =>
  value === MISSING ? '' : typeof value === 'string' ? value : JSON.stringify(value)

/** Returns the labels of one changed member, except those that depend on all members. */
function labelsOfMember(list: ListName, { pointer, before, after }: MemberChange): readonly Label[] {
  const known = linksIn(before)
  const isHint = HINTS.has(lastStep(pointer)) || (pointer === '/annotations' && list === 'tools')
  const checks: readonly (readonly [Label, boolean])[] = [
    ['instructions changed', list === 'instructions'],
    ['new field', before === MISSING],
    ['permission hint changed', isHint],
    ['new link', [...linksIn(after)].some((link) => !known.has(link))],
    ['hidden characters', hasHidden(formatValue(after))],
  ]
  return checks.filter(([, holds]) => holds).map(([label]) => label)
}

const isWording = ({ pointer, before, after }: MemberChange) =>
  WORDING.has(lastStep(pointer)) && typeof before === 'string' && typeof after === 'string'

function findLabels(list: ListName, changes: readonly MemberChange[]): ReadonlySet<Label> {
  const found = new Set(changes.flatMap((change) => labelsOfMember(list, change)))
  if (found.size === 0 && changes.length > 0 && changes.every(isWording)) found.add('wording only')
  return found
}

const cut = (text: string) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text)
const written = (value: unknown) => cut(shown(typeof value === 'string' ? value : JSON.stringify(value)))

/** Tells what the eye does not: hidden characters, tags that spell a text, the same letters by other code points. */
function* remarks(before: unknown, after: unknown): Generator<string> {
  const [old, now] = [formatValue(before), formatValue(after)]
  const tags = decodeTags(now)
  if (tags !== '' && tags !== decodeTags(old)) yield `tag characters spell: ${JSON.stringify(tags)}`
  if (old !== now && old !== '' && old.normalize('NFC') === now.normalize('NFC')) {
    const [one, other] = middle(old, now)
    yield `code points: ${cut(codePoints(one))} became ${cut(codePoints(other))}`
  }
}

function middle(one: string, other: string): readonly [string, string] {
  const [a, b] = [[...one], [...other]]
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  return [a.slice(start, a.length - end).join(''), b.slice(start, b.length - end).join('')]
}

export interface Change {
  readonly labels: readonly Label[]
  readonly lines: readonly string[]
}

function* formatChange({ pointer, before, after }: MemberChange): Generator<string> {
  const place = pointer === '' ? '' : `${shown(pointer)}: `
  if (before !== MISSING) yield `- ${place}${written(before)}`
  if (after !== MISSING) yield `+ ${place}${written(after)}`
  for (const remark of remarks(before, after)) yield `  ${place}${remark}`
}

const parsed = (list: ListName, text: string): unknown => (list === 'instructions' ? text : JSON.parse(text))

/** Compares the approved text of a definition with another one. */
export function describeChange(list: ListName, before: string, after: string): Change {
  const changes = [...membersThatDiffer(parsed(list, before), parsed(list, after), '')]
  const found = findLabels(list, changes)
  const rest = changes.length - MOST
  return {
    labels: LABELS.filter((label) => found.has(label)),
    lines: [
      ...changes.slice(0, MOST).flatMap((change) => [...formatChange(change)]),
      ...(rest > 0 ? [`  and ${rest} more members`] : []),
    ],
  }
}

export function describeAddition(list: ListName, text: string): Change {
  const value = parsed(list, text)
  const { lines } = describeChange(list, list === 'instructions' ? '' : '{}', text)
  const found: Label[] = []
  if (linksIn(value).size > 0) found.push('new link')
  if (hasHidden(formatValue(value))) found.push('hidden characters')
  return { labels: found, lines: lines.filter((line) => line !== '- ') }
}
