import type { MCPPin } from '../../crds/index.ts'

export const LISTS = ['instructions', 'tools', 'prompts', 'resources', 'resourceTemplates', 'pages'] as const
export type ListName = (typeof LISTS)[number]

/** Digests by name, by list. The last digest of a name was approved last. */
export type Pinned = Readonly<Record<ListName, ReadonlyMap<string, readonly string[]>>>

type Spec = MCPPin['spec']

export function pinnedIn(spec: Spec): Pinned {
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

/** Writes pins as the fields of an MCPPin's spec, sorted by name. */
export function buildSpec(pinned: Pinned): Omit<Spec, 'targetRef' | 'unlisted'> {
  const sorted = (list: ListName) => [...pinned[list]].sort(([a], [b]) => (a < b ? -1 : 1))
  const field = (list: Exclude<ListName, 'instructions'>, key: 'name' | 'uri' | 'uriTemplate') =>
    pinned[list].size === 0 ? {} : { [list]: sorted(list).map(([name, digests]) => ({ [key]: name, digests })) }
  const [instructions] = [...pinned.instructions.values()]
  return {
    ...(instructions === undefined ? {} : { instructions: { digests: [...instructions] } }),
    ...field('tools', 'name'),
    ...field('prompts', 'name'),
    ...field('resources', 'uri'),
    ...field('resourceTemplates', 'uriTemplate'),
    ...field('pages', 'uri'),
  } as Omit<Spec, 'targetRef' | 'unlisted'>
}
