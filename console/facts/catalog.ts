import { isObject } from '../../crds/settings/json.ts'
import { readYaml, valueOfYaml } from '../../dataplane/config/read/yaml.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'

/** An entry of a registry, as a card shows it. Its texts come from publishers and are untrusted. */
export type CatalogEntry = NonNullable<ReturnType<typeof readEntry>>

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
export function readEntry(item: unknown, registry: string) {
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

type Settings = Readonly<Record<string, unknown>>

/** The most characters of a configuration that is read for a page. */
const LONGEST = 256 * 1024

/** The settings that were read, by object: an object of the API server never changes. */
const known = new WeakMap<object, Settings>()

/** Returns the settings of an MCPRegistry, whether they are fields of its `spec` or the text of `configYAML`. */
export function registrySettings(object: KubernetesObject): Settings {
  const spec = isObject(object['spec']) ? object['spec'] : {}
  const text = spec['configYAML']
  if (typeof text !== 'string') return spec
  let read = known.get(object)
  if (read === undefined) {
    read = text.length > LONGEST ? {} : parseSettings(text)
    known.set(object, read)
  }
  return read
}

function parseSettings(text: string): Settings {
  try {
    const value = valueOfYaml(readYaml(text))
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}

/** Returns the names of the registries that the settings declare. */
export function declaredRegistries(object: KubernetesObject): readonly string[] {
  const { registries } = registrySettings(object)
  return (Array.isArray(registries) ? registries : []).flatMap((one) =>
    isObject(one) && typeof one['name'] === 'string' ? [one['name']] : [],
  )
}
