import { isObject } from '../../crds/settings/json.ts'

/** An entry of a registry, as a card shows it. Its texts come from publishers and are untrusted. */
export interface CatalogEntry {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly version: string
  readonly href: string
  readonly remotes: readonly string[]
  readonly commands: readonly string[]
}

/** The registry's explanation whether an entry is visible. */
export interface WhyFacts {
  readonly name: string
  readonly visible: boolean | null
  readonly checks: readonly { readonly check: string; readonly allowed: boolean; readonly reason: string }[]
  readonly error: string | null
}

export interface CatalogFacts {
  readonly registries: readonly { readonly name: string; readonly href: string }[]
  readonly registry: string | null
  /** The name on its tab. */
  readonly label: string | null
  /** `NAMESPACE/NAME` of the MCPRegistry, where several have a registry of this name. */
  readonly of: string | null
  readonly search: string
  readonly entries: readonly CatalogEntry[]
  readonly next: string | null
  readonly missing: string | null
  /** True if the registry requires a token, and the console has no valid one of this viewer. */
  readonly needsToken: boolean
  readonly hasToken: boolean
  /** The explanation why an entry is not shown; null if nobody asked for it. */
  readonly why: WhyFacts | null
}

const text = (value: unknown, most = 2_000): string => (typeof value === 'string' ? value.slice(0, most) : '')

/** Reads an entry of the registry API (v0.1), whose document is in `server`. */
export function readEntry(item: unknown, registry: string): CatalogEntry | undefined {
  const server = isObject(item) && isObject(item['server']) ? item['server'] : undefined
  const name = text(server?.['name'], 300)
  if (server === undefined || name === '') return undefined
  const list = (value: unknown) => (Array.isArray(value) ? value.filter(isObject).slice(0, 20) : [])
  return {
    name,
    title: text(server['title'], 300) || name,
    description: text(server['description']),
    version: text(server['version'], 100),
    href: `/catalog/${encodeURIComponent(registry)}/${name.split('/').map(encodeURIComponent).join('/')}`,
    remotes: list(server['remotes']).flatMap(({ url }) => text(url) || []),
    commands: list(server['packages']).map(({ runtimeHint, registryType, identifier }) =>
      [text(runtimeHint) || text(registryType), text(identifier)].join(' '),
    ),
  }
}
