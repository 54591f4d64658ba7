import { isObject } from '../../../crds/settings/json.ts'
import { type Connection, type Setup, setupsFor } from '../../pages/client-setup.ts'

/** The parts of a server document that say how to reach it. Documents of synced sources may hold anything. */
export interface Reachable {
  readonly name: string
  readonly remotes?: readonly { readonly type?: unknown; readonly url?: unknown }[]
  readonly packages?: readonly {
    readonly registryType?: unknown
    readonly identifier?: unknown
    readonly version?: unknown
    readonly environmentVariables?: unknown
  }[]
}

interface ShownServer {
  readonly server: Reachable
  readonly title: string | undefined
  readonly description: string | undefined
  readonly ways: readonly string[]
  readonly websiteUrl: string | undefined
  readonly repositoryUrl: string | undefined
}

/** Returns the commands that add a server to common clients; none if the document names no way to reach it. */
export function clientSetups(server: Reachable): readonly Setup[] {
  const connection = findRemote(server) ?? findPackage(server)
  if (connection === undefined) return []
  return setupsFor(server.name.split('/').at(-1) ?? server.name, connection)
}

function findRemote({ remotes }: Reachable): Connection | undefined {
  for (const { type, url } of remotes ?? [])
    if (typeof url === 'string' && /^https?:\/\//i.test(url)) return { type: type === 'sse' ? 'sse' : 'http', url }
  return undefined
}

/** The runners by the package's registry. */
const RUNNERS: Readonly<Record<string, (identifier: string, version: string | undefined) => readonly string[]>> = {
  npm: (identifier, version) => ['npx', '-y', version === undefined ? identifier : `${identifier}@${version}`],
  pypi: (identifier, version) => ['uvx', version === undefined ? identifier : `${identifier}@${version}`],
  oci: (identifier, version) => [
    'docker',
    'run',
    '-i',
    '--rm',
    version === undefined || /[:@]/.test(identifier.split('/').at(-1) ?? '') ? identifier : `${identifier}:${version}`,
  ],
  nuget: (identifier, version) => ['dnx', version === undefined ? identifier : `${identifier}@${version}`, '--yes'],
}

function findPackage({ packages }: Reachable): Connection | undefined {
  for (const { registryType, identifier, version, environmentVariables } of packages ?? []) {
    const runner = typeof registryType === 'string' && Object.hasOwn(RUNNERS, registryType) && RUNNERS[registryType]
    if (!runner || typeof identifier !== 'string') continue
    const [command = '', ...args] = runner(identifier, typeof version === 'string' ? version : undefined)
    const names = variableNames(environmentVariables)
    if (registryType === 'oci') args.splice(args.length - 1, 0, ...names.flatMap((name) => ['-e', name]))
    return {
      command,
      args,
      ...(names.length > 0 && { env: Object.fromEntries(names.map((name) => [name, `<${name}>`])) }),
    }
  }
  return undefined
}

function variableNames(variables: unknown): readonly string[] {
  if (!Array.isArray(variables)) return []
  return variables
    .map((variable: { name?: unknown } | null) => variable?.name)
    .filter((name) => typeof name === 'string' && /^\w+$/.test(name)) as string[]
}

/** Reads a stored document. Its parts were checked on arrival; texts are escaped when they are shown. */
export function parseDocument(text: string): ShownServer {
  const server = JSON.parse(text) as Reachable & Record<string, unknown>
  const { remotes = [], packages = [] } = server
  const kinds = packages.map(({ registryType }) => registryType).filter((kind) => typeof kind === 'string') as string[]
  return {
    server,
    title: readText(server['title']),
    description: readText(server['description']),
    ways: [...new Set([...(remotes.length > 0 ? ['remote'] : []), ...kinds])].slice(0, 4),
    websiteUrl: webUrl(server['websiteUrl']),
    repositoryUrl: isObject(server['repository']) ? webUrl(server['repository']['url']) : undefined,
  }
}

function readText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Returns a web URL. The page's policy would refuse a `javascript:` link; here it isn't even written. */
function webUrl(value: unknown): string | undefined {
  return typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? '') ? value : undefined
}
