import type { MCPPin } from '../../crds/index.ts'
import { definitionDigest, instructionsDigest, pageDigest } from '../../crds/settings/definition-digest.ts'
import { isObject } from '../../crds/settings/json.ts'
import { byText } from '../../operator/model/index.ts'

export const LISTS = ['instructions', 'tools', 'prompts', 'resources', 'resourceTemplates', 'pages'] as const
export type ListName = (typeof LISTS)[number]

/** Digests by name, by list. The last digest of a name was approved last. */
export type Pinned = Readonly<Record<ListName, ReadonlyMap<string, readonly string[]>>>

export type PinSpec = MCPPin['spec']

export function readPinned(spec: PinSpec): Pinned {
  const { instructions, tools = [], prompts = [], resources = [], resourceTemplates = [], pages = [] } = spec
  const byName = (items: readonly { readonly name: string; readonly digests: readonly string[] }[]) =>
    new Map(items.map(({ name, digests }) => [name, digests]))
  const byUri = (items: readonly { readonly uri: string; readonly digests: readonly string[] }[]) =>
    new Map(items.map(({ uri, digests }) => [uri, digests]))
  return {
    instructions: new Map(instructions === undefined ? [] : [['', instructions.digests]]),
    tools: byName(tools),
    prompts: byName(prompts),
    resources: byUri(resources),
    resourceTemplates: new Map(resourceTemplates.map(({ uriTemplate, digests }) => [uriTemplate, digests])),
    pages: byUri(pages),
  }
}

/** Lists all digests with their names. */
export const listDigests = (pinned: Pinned) =>
  LISTS.flatMap((list) =>
    [...pinned[list]].flatMap(([name, digests]) => digests.map((digest) => ({ list, name, digest }))),
  )

/** Writes pins as the fields of an MCPPin's spec, sorted by name. */
export function buildSpec(pinned: Pinned): Omit<PinSpec, 'targetRef' | 'unlisted'> {
  const sortList = (list: ListName) => [...pinned[list]].sort(([a], [b]) => (a < b ? -1 : 1))
  const field = (list: Exclude<ListName, 'instructions'>, key: 'name' | 'uri' | 'uriTemplate') =>
    pinned[list].size === 0 ? {} : { [list]: sortList(list).map(([name, digests]) => ({ [key]: name, digests })) }
  const [instructions] = [...pinned.instructions.values()]
  return {
    ...(instructions === undefined ? {} : { instructions: { digests: [...instructions] } }),
    ...field('tools', 'name'),
    ...field('prompts', 'name'),
    ...field('resources', 'uri'),
    ...field('resourceTemplates', 'uriTemplate'),
    ...field('pages', 'uri'),
  } as Omit<PinSpec, 'targetRef' | 'unlisted'>
}

export interface Shown {
  readonly list: ListName
  readonly name: string
  /** The JSON text as it came; the text itself for instructions. */
  readonly text: string
  /** Undefined if the text has no digest. */
  readonly digest: string | undefined
}

/** Computes a digest here, because the digests in an answer are not trusted. */
export function digestText(list: ListName, text: string): string | undefined {
  if (list === 'instructions') return instructionsDigest(text)
  return list === 'pages' ? pageDigest(text) : definitionDigest(text)
}

function readShown(item: unknown): readonly Shown[] {
  if (!isObject(item)) return []
  const list = LISTS.find((one) => one === item['kind'])
  const { text, name = '' } = item
  if (list === undefined || typeof text !== 'string' || typeof name !== 'string') return []
  return [{ list, name: list === 'instructions' ? '' : name, text, digest: digestText(list, text) }]
}

/** The definitions of a backend as a data plane reports them. */
interface BackendDefinitions {
  readonly shown: readonly Shown[]
  readonly isListed: boolean
}

/** Reads an answer of `GET /definitions` for one backend. Undefined if the data plane does not know the backend. */
export function shownBy(answer: unknown, backend: string): BackendDefinitions | undefined {
  if (!isObject(answer) || !Array.isArray(answer['backends'])) return undefined
  const found: unknown = answer['backends'].find((one) => isObject(one) && one['name'] === backend)
  if (!isObject(found)) return undefined
  const { definitions, isListed } = found
  return { shown: Array.isArray(definitions) ? definitions.flatMap(readShown) : [], isListed: isListed === true }
}

/** Joins what several pods or callers are shown: each text of a name once, by list and name. */
export function removeRepeats(all: readonly Shown[]): readonly Shown[] {
  const found = new Map(all.map((one) => [JSON.stringify([one.list, one.name, one.digest ?? one.text]), one]))
  return [...found.values()].sort(
    (a, b) =>
      LISTS.indexOf(a.list) - LISTS.indexOf(b.list) || byText(a.name, b.name) || byText(a.digest ?? '', b.digest ?? ''),
  )
}
