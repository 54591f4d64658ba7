import { isObject } from '../../crds/settings/json.ts'
import { objectKey } from '../../operator/cluster/files/index.ts'
import type { Given, Io } from '../command.ts'
import type { Server } from './collect.ts'
import { LISTS, type ListName, type Shown } from './pinned.ts'
import { collect, type PinInput, readPinInput } from './servers.ts'
import { codePoints, decodeTags, describeExternalReferences, hasHidden, makePrintable } from './suspicious-text.ts'
import { plainText, readTexts } from './text-files.ts'

const FAILED = 2

const formatTitle = (server: Server, list: ListName, name: string) =>
  `${server.kind} ${server.namespace}/${server.name}: ${list}${name === '' ? '' : ` ${JSON.stringify(makePrintable(name))}`}`

const formatLabels = ({ labels }: Change) => (labels.length === 0 ? '' : ` (${labels.join(', ')})`)

function print(head: string, change: Change, io: Io): void {
  io.out(`${head}${formatLabels(change)}\n`)
  for (const line of change.lines) io.out(`  ${line}\n`)
}

/** The digests that all MCPPins of a server approve, by list and name, and the texts beside them. */
function findApproved(server: Server, { pins }: PinInput) {
  const own = pins.filter((one) => objectKey(one.server) === objectKey(server))
  const digests = (list: ListName, name: string) => own.flatMap(({ pinned }) => pinned[list].get(name) ?? [])
  const names = (list: ListName) => [...new Set(own.flatMap(({ pinned }) => [...pinned[list].keys()]))].sort()
  const texts = new Map(
    own.flatMap(({ file }) =>
      readTexts(file.replace(/\.[^./\\]+$/, '')).flatMap(({ list, digest, content }) =>
        digest === undefined ? [] : [[`${list} ${digest}`, plainText(list, content)] as const],
      ),
    ),
  )
  return { digests, names, texts }
}

type Approved = ReturnType<typeof findApproved>

function printShown(head: string, { list, name, text, digest }: Shown, { digests, texts }: Approved, io: Io): void {
  const approved = digests(list, name)
  const before = approved.toReversed().flatMap((one) => texts.get(`${list} ${one}`) ?? [])[0]
  if (digest === undefined) io.out(`${head}: can’t be approved: it repeats a member, or is nested too deeply\n`)
  else if (approved.length === 0) print(`${head}: added`, describeAddition(list, text), io)
  else if (before !== undefined) print(`${head}: changed`, describeChange(list, before, text), io)
  else io.out(`${head}: changed; the approved text is in no file beside its MCPPin\n`)
}

/** Returns a finding if a definition refers to something that no digest covers. */
function describeOutside({ list, text, digest }: Shown): string | undefined {
  const found = digest === undefined ? undefined : describeExternalReferences(list, text)
  return found === undefined ? undefined : `ExternalReference: ${found}`
}

/** Prints how what a server shows differs from what is approved. Returns the number of definitions that differ. */
function printDifferences(server: Server, seen: readonly Shown[], input: PinInput, io: Io): number {
  const approved = findApproved(server, input)
  const different = seen.filter(
    ({ list, name, digest }) => digest === undefined || !approved.digests(list, name).includes(digest),
  )
  for (const one of different) {
    const head = formatTitle(server, one.list, one.name)
    printShown(head, one, approved, io)
    const outside = describeOutside(one)
    if (outside !== undefined) io.out(`${head}: ${outside}\n`)
  }
  for (const one of seen) {
    const outside = different.includes(one) ? undefined : describeOutside(one)
    if (outside !== undefined) io.err(`portico: warning: ${formatTitle(server, one.list, one.name)}: ${outside}`)
  }
  const keys = new Set(seen.map(({ list, name }) => `${list} ${name}`))
  const removed = LISTS.flatMap((list) =>
    approved.names(list).flatMap((name) => (keys.has(`${list} ${name}`) ? [] : [formatTitle(server, list, name)])),
  )
  for (const head of removed) io.out(`${head}: removed\n`)
  return different.length + removed.length
}

/**
 * Compares what servers show with what MCPPins approve. Returns 0 for no difference, 1 for differences, 2 for a
 * failure.
 */
export async function diffPins(given: Given, io: Io): Promise<number> {
  const input = readPinInput(given, io)
  if (input === undefined) return FAILED
  const collected = await collect(input, given, io)
  let count = 0
  let failed = false
  for (const server of input.servers) {
    const found = collected.get(objectKey(server)) ?? 'it was not asked'
    if (typeof found === 'string') {
      io.err(`portico: ${server.kind} ${server.namespace}/${server.name}: ${found}`)
      failed = true
    } else count += printDifferences(server, found, input, io)
  }
  if (failed) return FAILED
  return count > 0 ? 1 : 0
}

// Describes for reviewers how the shown text of a definition differs from the approved one.

export const LABELS = [
  'new field',
  'instructions changed',
  'permission hint changed',
  'new link',
  'hidden characters',
  'wording only',
] as const
type Label = (typeof LABELS)[number]

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
function* compareMembers(before: unknown, after: unknown, pointer: string): Generator<MemberChange> {
  if (Object.is(before, after)) return
  const both = [before, after]
  if (both.every(isObject) || both.every(Array.isArray)) {
    const [old, now] = both as [Record<string, unknown>, Record<string, unknown>]
    const value = (of: Record<string, unknown>, key: string) => (Object.hasOwn(of, key) ? of[key] : MISSING)
    for (const key of new Set([...Object.keys(old), ...Object.keys(now)]))
      yield* compareMembers(value(old, key), value(now, key), pointer + step(key))
    return
  }
  yield { pointer, before, after }
}

const findLinks = (value: unknown) =>
  new Set((value === MISSING ? '' : (JSON.stringify(value) ?? '')).match(LINK)?.map((link) => link.toLowerCase()) ?? [])

const lastStep = (pointer: string) => pointer.slice(pointer.lastIndexOf('/') + 1)

const formatValue = (value: unknown): string =>
  value === MISSING ? '' : typeof value === 'string' ? value : JSON.stringify(value)

/** Returns the labels of one changed member, except those that depend on all members. */
function labelMember(list: ListName, { pointer, before, after }: MemberChange): readonly Label[] {
  const known = findLinks(before)
  const isHint = HINTS.has(lastStep(pointer)) || (pointer === '/annotations' && list === 'tools')
  const checks: readonly (readonly [Label, boolean])[] = [
    ['instructions changed', list === 'instructions'],
    ['new field', before === MISSING],
    ['permission hint changed', isHint],
    ['new link', [...findLinks(after)].some((link) => !known.has(link))],
    ['hidden characters', hasHidden(formatValue(after))],
  ]
  return checks.filter(([, holds]) => holds).map(([label]) => label)
}

const isWording = ({ pointer, before, after }: MemberChange) =>
  WORDING.has(lastStep(pointer)) && typeof before === 'string' && typeof after === 'string'

function findLabels(list: ListName, changes: readonly MemberChange[]): ReadonlySet<Label> {
  const found = new Set(changes.flatMap((change) => labelMember(list, change)))
  if (found.size === 0 && changes.length > 0 && changes.every(isWording)) found.add('wording only')
  return found
}

const cut = (text: string) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text)
const formatMember = (value: unknown) => cut(makePrintable(typeof value === 'string' ? value : JSON.stringify(value)))

/** Reports what a reader does not see: hidden characters, tags that spell a text, the same letters by other code points. */
function* reportHidden(before: unknown, after: unknown): Generator<string> {
  const [old, now] = [formatValue(before), formatValue(after)]
  const tags = decodeTags(now)
  if (tags !== '' && tags !== decodeTags(old)) yield `tag characters spell: ${JSON.stringify(tags)}`
  if (old !== now && old !== '' && old.normalize('NFC') === now.normalize('NFC')) {
    const [one, other] = findMiddle(old, now)
    yield `code points: ${cut(codePoints(one))} became ${cut(codePoints(other))}`
  }
}

function findMiddle(one: string, other: string): readonly [string, string] {
  const [a, b] = [[...one], [...other]]
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  return [a.slice(start, a.length - end).join(''), b.slice(start, b.length - end).join('')]
}

interface Change {
  readonly labels: readonly Label[]
  readonly lines: readonly string[]
}

function* formatChange({ pointer, before, after }: MemberChange): Generator<string> {
  const place = pointer === '' ? '' : `${makePrintable(pointer)}: `
  if (before !== MISSING) yield `- ${place}${formatMember(before)}`
  if (after !== MISSING) yield `+ ${place}${formatMember(after)}`
  for (const remark of reportHidden(before, after)) yield `  ${place}${remark}`
}

const parseText = (list: ListName, text: string): unknown => (list === 'instructions' ? text : JSON.parse(text))

/** Compares the approved text of a definition with another one. */
export function describeChange(list: ListName, before: string, after: string): Change {
  const changes = [...compareMembers(parseText(list, before), parseText(list, after), '')]
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
  const value = parseText(list, text)
  const { lines } = describeChange(list, list === 'instructions' ? '' : '{}', text)
  const found: Label[] = []
  if (findLinks(value).size > 0) found.push('new link')
  if (hasHidden(formatValue(value))) found.push('hidden characters')
  return { labels: found, lines: lines.filter((line) => line !== '- ') }
}
