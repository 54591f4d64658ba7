import { objectKey } from '../../operator/cluster/files/index.ts'
import type { Given, Io } from '../command.ts'
import { type Change, describeAddition, describeChange } from './changes.ts'
import type { Server } from './collect.ts'
import { externalReferences } from './external-references.ts'
import { shown as printable } from './hidden.ts'
import { LISTS, type ListName } from './pinned.ts'
import { collect, type PinInput, readPinInput } from './servers.ts'
import type { Shown } from './shown.ts'
import { plainText, readTexts } from './text-files.ts'

const FAILED = 2

const title = (server: Server, list: ListName, name: string) =>
  `${server.kind} ${server.namespace}/${server.name}: ${list}${name === '' ? '' : ` ${JSON.stringify(printable(name))}`}`

const labelled = ({ labels }: Change) => (labels.length === 0 ? '' : ` (${labels.join(', ')})`)

function print(head: string, change: Change, io: Io): void {
  io.out(`${head}${labelled(change)}\n`)
  for (const line of change.lines) io.out(`  ${line}\n`)
}

/** The digests that all MCPPins of a server approve, by list and name, and the texts beside them. */
function approvedFor(server: Server, { pins }: PinInput) {
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

type Approved = ReturnType<typeof approvedFor>

function printShown(head: string, { list, name, text, digest }: Shown, { digests, texts }: Approved, io: Io): void {
  const approved = digests(list, name)
  const before = approved.toReversed().flatMap((one) => texts.get(`${list} ${one}`) ?? [])[0]
  if (digest === undefined) io.out(`${head}: can’t be approved: it repeats a member, or is nested too deeply\n`)
  else if (approved.length === 0) print(`${head}: added`, describeAddition(list, text), io)
  else if (before !== undefined) print(`${head}: changed`, describeChange(list, before, text), io)
  else io.out(`${head}: changed; the approved text is in no file beside its MCPPin\n`)
}

/** Returns the finding about what a definition refers to and no digest covers; undefined if there is none. */
function outsideOf({ list, text, digest }: Shown): string | undefined {
  const found = digest === undefined ? undefined : externalReferences(list, text)
  return found === undefined ? undefined : `ExternalReference: ${found}`
}

/** Prints how what a server shows differs from what is approved. Returns the number of definitions that differ. */
function printDifferences(server: Server, seen: readonly Shown[], input: PinInput, io: Io): number {
  const approved = approvedFor(server, input)
  const different = seen.filter(
    ({ list, name, digest }) => digest === undefined || !approved.digests(list, name).includes(digest),
  )
  for (const one of different) {
    const head = title(server, one.list, one.name)
    printShown(head, one, approved, io)
    const outside = outsideOf(one)
    if (outside !== undefined) io.out(`${head}: ${outside}\n`)
  }
  for (const one of seen) {
    const outside = different.includes(one) ? undefined : outsideOf(one)
    if (outside !== undefined) io.err(`portico: warning: ${title(server, one.list, one.name)}: ${outside}`)
  }
  const keys = new Set(seen.map(({ list, name }) => `${list} ${name}`))
  const removed = LISTS.flatMap((list) =>
    approved.names(list).flatMap((name) => (keys.has(`${list} ${name}`) ? [] : [title(server, list, name)])),
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
