import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parse, stringify } from 'yaml'
import { formatApiVersion, type MCPPin } from '../../crds/index.ts'
import { pinLimits } from '../../crds/settings/gateway/pinning.ts'
import { isObject } from '../../crds/settings/json.ts'
import { objectKey } from '../../operator/cluster/files/index.ts'
import { canonicalJson } from '../../operator/render/object/canonical.ts'
import type { Command, Given, Io } from '../command.ts'
import { groupOption, readManifestPaths } from '../options/manifests.ts'
import type { Server } from './collect.ts'
import { buildSpec, LISTS, type ListName, listDigests, type Pinned, readPinned, type Shown } from './pinned.ts'
import { collect, type PinInput, pinKubeconfigOption, pinsFolderOption, readPinInput, serverOption } from './servers.ts'
import { describeExternalReferences, makePrintable } from './suspicious-text.ts'
import { formatTextKey, listTextFiles, plainText, readTexts } from './text-files.ts'

/** Returns the folder of the pins: the one that is named, else `pins` beside the manifests. */
function readPinsFolder(given: Given): string {
  const named = given.text('directory')
  if (named !== undefined) return named
  const [first = '.'] = readManifestPaths(given)
  const isFolder = statSync(first, { throwIfNoEntry: false })?.isDirectory() === true
  return join(isFolder ? first : dirname(first), 'pins')
}

const formatTitle = ({ kind, namespace, name }: Server) => `${kind} ${namespace}/${name}`

function tell(server: Server, { changes, refused, outside }: PinPlan, io: Io): void {
  for (const { list, name, what } of changes)
    io.out(`${formatTitle(server)}: ${list}${name === '' ? '' : ` ${JSON.stringify(makePrintable(name))}`}: ${what}\n`)
  for (const text of [...refused, ...outside]) io.err(`portico: ${formatTitle(server)}: ${text}`)
}

function planAll(input: PinInput, collected: Awaited<ReturnType<typeof collect>>, given: Given, io: Io) {
  const folder = readPinsFolder(given)
  const byName = Map.groupBy(input.servers, ({ kind, name }) => `${kind}/${name}`)
  let failed = false
  const plans = input.servers.flatMap((server): readonly (readonly [Server, PinPlan])[] => {
    const found = collected.get(objectKey(server)) ?? 'it was not asked'
    if (typeof found === 'string') {
      io.err(`portico: ${formatTitle(server)}: ${found}`)
      failed = true
      return []
    }
    const namesakes = byName.get(`${server.kind}/${server.name}`) ?? []
    const namesNamespace = namesakes.some(({ namespace }) => namespace !== server.namespace)
    const own = resolve(folder, `${formatPinName(server, namesNamespace)}.yaml`)
    const elsewhere = input.pins
      .filter((pins) => objectKey(pins.server) === objectKey(server) && resolve(pins.file) !== own)
      .map(({ pinned }) => pinned)
    const options = { folder, group: input.set.group, prune: given.flag('prune'), namesNamespace, elsewhere }
    return [[server, planPins(server, found, options)]]
  })
  return { plans, failed }
}

export const command: Command = {
  name: 'pin',
  synopsis: 'DIR|FILE … [options]',
  about: `Approves the definitions that servers show now: writes an MCPPin for each server, with the digests of its tools,
prompts, resources, templates, pages and instructions, and beside it each text, for the pull request in which somebody
reads them. What is approved stays so; --prune drops what is not shown any more. Writes nothing if nothing is new.

Merging is approving: read the texts, or what diff --pins says, before.`,
  options: {
    kubeconfig: pinKubeconfigOption,
    server: serverOption,
    directory: pinsFolderOption,
    check: { type: 'boolean', description: 'Writes nothing; exits 1 if something would be written.' },
    prune: { type: 'boolean', description: 'Drops digests that are not seen.' },
    'api-group': groupOption,
  },
  async run(given, io) {
    const input = readPinInput(given, io)
    if (input === undefined) return 1
    const { plans, failed } = planAll(input, await collect(input, given, io), given, io)
    const isOther = plans.some(([, { writes }]) => writes.size > 0)
    for (const [server, plan] of plans) tell(server, plan, io)
    if (!given.flag('check')) for (const [, plan] of plans) writePlan(plan)
    if (plans.length > 0 && !isOther) io.out('all definitions are approved; nothing to write\n')
    return failed || (given.flag('check') && isOther) ? 1 : 0
  },
}

// The file of a server's MCPPin, and its change when definitions are approved.

const LONGEST_NAME = 253

/** The name of a server's MCPPin, and of its file without `.yaml`. Of servers in several namespaces it names theirs. */
function formatPinName({ kind, namespace, name }: Server, namesNamespace: boolean): string {
  const whole = `${kind.toLowerCase()}-${namesNamespace ? `${namespace}-` : ''}${name}`
  if (whole.length <= LONGEST_NAME) return whole
  return `${whole.slice(0, LONGEST_NAME - 9)}-${createHash('sha256').update(whole).digest('hex').slice(0, 8)}`
}

type PinObject = Pick<MCPPin, 'spec'> & {
  readonly metadata: Record<string, unknown>
  readonly [field: string]: unknown
}

/** Reads the file of an MCPPin. Throws an Error if another object or no YAML is in it. */
function readPinFile(file: string, { kind, name }: Server): PinObject | undefined {
  if (statSync(file, { throwIfNoEntry: false }) === undefined) return undefined
  const object: unknown = parse(readFileSync(file, 'utf8'))
  const spec = isObject(object) && object['kind'] === 'MCPPin' ? object['spec'] : undefined
  const target = isObject(spec) ? spec['targetRef'] : undefined
  if (!isObject(target) || target['kind'] !== kind || target['name'] !== name)
    throw new Error(`${file}: is not an MCPPin of ${kind} ${name}; move it, or write elsewhere with -o`)
  return object as PinObject
}

interface PinChange {
  readonly list: ListName
  readonly name: string
  readonly what: 'added' | 'changed' | 'dropped'
}

/** The changes of files that approve the shown definitions of a server. */
interface PinPlan {
  readonly changes: readonly PinChange[]
  readonly refused: readonly string[]
  readonly outside: readonly string[]
  readonly writes: ReadonlyMap<string, string | undefined>
}

interface PinOptions {
  readonly folder: string
  readonly group: string
  readonly prune: boolean
  readonly namesNamespace: boolean
  readonly elsewhere: readonly Pinned[]
}

const longest = (list: ListName) => (list === 'tools' || list === 'prompts' ? pinLimits.name : pinLimits.uri)

function findRefusal({ list, name, digest }: Shown): string | undefined {
  const what = `${list} ${JSON.stringify(makePrintable(name))}`
  if (digest === undefined) return `${what}: has no digest: it repeats a member, or is nested too deeply`
  if (list !== 'instructions' && (name === '' || name.length > longest(list) || !name.isWellFormed()))
    return `${what}: its name can't stand in an MCPPin`
  return undefined
}

/** Joins approved and seen digests: the earlier ones first, new ones after them. */
function mergePins(before: Pinned, seen: readonly Shown[], { prune, elsewhere }: PinOptions): Pinned {
  const isElsewhere = (list: ListName, name: string, digest: string) =>
    elsewhere.some((pinned) => pinned[list].get(name)?.includes(digest) === true)
  const findListed = (list: ListName): ReadonlyMap<string, readonly string[]> => {
    const found = Map.groupBy(
      seen.filter((one) => one.list === list),
      ({ name }) => name,
    )
    const names = [...new Set([...before[list].keys(), ...found.keys()])]
    return new Map(
      names.flatMap((name): [string, readonly string[]][] => {
        const now = (found.get(name) ?? []).map(({ digest }) => digest as string)
        const old = (before[list].get(name) ?? []).filter((digest) => !prune || now.includes(digest))
        const added = now.filter((digest) => !old.includes(digest) && !isElsewhere(list, name, digest))
        const digests = [...old, ...added]
        return digests.length === 0 ? [] : [[name, digests]]
      }),
    )
  }
  return Object.fromEntries(LISTS.map((list) => [list, findListed(list)])) as unknown as Pinned
}

const findChanges = (before: Pinned, after: Pinned): readonly PinChange[] =>
  LISTS.flatMap((list) =>
    [...new Set([...before[list].keys(), ...after[list].keys()])].sort().flatMap((name): PinChange[] => {
      const [old = [], now = []] = [before[list].get(name), after[list].get(name)]
      if (old.join() === now.join()) return []
      const what = old.length === 0 ? 'added' : now.length === 0 ? 'dropped' : 'changed'
      return [{ list, name, what }]
    }),
  )

/** Plans the files of a server's pins. Throws an Error if they would not fit into one object. */
export function planPins(server: Server, seen: readonly Shown[], options: PinOptions): PinPlan {
  const base = join(options.folder, formatPinName(server, options.namesNamespace))
  const file = `${base}.yaml`
  const current = readPinFile(file, server)
  const { kind, namespace, name } = server
  const before = readPinned(current?.spec ?? { targetRef: { kind, name } })
  const refused = seen.flatMap((one) => findRefusal(one) ?? [])
  const usable = seen.filter((one) => findRefusal(one) === undefined)
  const after = mergePins(before, usable, options)
  const over = LISTS.flatMap((list) =>
    [...after[list]].flatMap(([name, digests]) =>
      digests.length > pinLimits.digests ? [`${list} ${JSON.stringify(makePrintable(name))}`] : [],
    ),
  )
  if (over.length > 0)
    throw new Error(`${file}: ${over.join(', ')}: more than ${pinLimits.digests} digests; drop old ones with --prune`)
  const items = LISTS.reduce((sum, list) => sum + (list === 'instructions' ? 0 : after[list].size), 0)
  if (items > pinLimits.items)
    throw new Error(`${file}: would have ${items} pins; at most ${pinLimits.items} fit into one MCPPin`)
  const spec = {
    targetRef: { kind, name },
    ...buildSpec(after),
    ...(current?.spec.unlisted && { unlisted: current.spec.unlisted }),
  }
  if (Buffer.byteLength(JSON.stringify(spec)) > pinLimits.bytes)
    throw new Error(`${file}: would have more than ${pinLimits.bytes} bytes; spread the pins over several MCPPins`)
  const writes = new Map<string, string | undefined>()
  if (current === undefined || canonicalJson(current.spec) !== canonicalJson(spec)) {
    const metadata = current?.metadata ?? {
      name: formatPinName(server, false),
      ...(namespace === 'default' ? {} : { namespace }),
    }
    const object = { apiVersion: formatApiVersion(options.group), kind: 'MCPPin', ...current, metadata, spec }
    writes.set(file, stringify(object, { lineWidth: 0, aliasDuplicateObjects: false }))
  }
  for (const [path, content] of planTextWrites(base, usable, after)) writes.set(path, content)
  const outside = usable.flatMap(({ list, name: own, text }) => {
    const found = describeExternalReferences(list, text)
    return found === undefined ? [] : [`${list} ${JSON.stringify(makePrintable(own))}: ExternalReference: ${found}`]
  })
  return { changes: findChanges(before, after), refused, outside, writes }
}

/** Returns the text files that differ. A text that is approved and not seen now is taken from its file. */
function planTextWrites(base: string, seen: readonly Shown[], after: Pinned): ReadonlyMap<string, string | undefined> {
  const found = readTexts(base)
  const contents = new Map(found.map(({ path, content }) => [path, content]))
  const texts = new Map(seen.map(({ list, name, digest, text }) => [formatTextKey(list, name, digest as string), text]))
  // Many names may have many texts.
  const approved = Map.groupBy(listDigests(after), ({ list, digest }) => `${list} ${digest}`)
  for (const { list, digest, content } of found)
    for (const { name } of approved.get(`${list} ${digest}`) ?? []) {
      const key = formatTextKey(list, name, digest as string)
      if (!texts.has(key)) texts.set(key, plainText(list, content))
    }
  const wanted = new Map(listTextFiles(after, texts).map(({ path, content }) => [path, content]))
  const writes = new Map<string, string | undefined>()
  for (const [path, content] of wanted) if (contents.get(path) !== content) writes.set(join(base, path), content)
  for (const path of contents.keys()) if (!wanted.has(path)) writes.set(join(base, path), undefined)
  return writes
}

export function writePlan({ writes }: PinPlan): void {
  for (const [path, content] of writes) {
    if (content === undefined) {
      rmSync(path, { force: true })
      continue
    }
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content)
  }
}
