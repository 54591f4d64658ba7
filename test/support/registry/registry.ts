import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serveRegistry } from '../../../dataplane/registry/index.ts'
import type { SyncState } from '../../../dataplane/registry/sources/format/source.ts'
import type { Observe } from '../../../dataplane/telemetry/observe.ts'
import { eventually } from '../eventually.ts'
import { recordLog } from '../kept-log.ts'

/** Returns the smallest server document that clients accept. */
export interface Server {
  readonly name: string
  readonly description: string
  readonly version: string
  readonly title?: string
  readonly _meta?: Record<string, unknown>
}

export function server(name: string, version = '1.0.0', rest: Partial<Server> = {}): Server {
  return { name, description: `About ${name}`, version, ...rest }
}

/** Returns the text of a registry file. */
export function registryFile(servers: readonly unknown[], skills?: readonly unknown[]): string {
  return JSON.stringify({ version: '1.0.0', meta: { last_updated: '2026-01-01T00:00:00Z' }, data: { servers, skills } })
}

const OFFICIAL = 'io.modelcontextprotocol.registry/official'

/** A version in an answer of the consumer API. */
export interface Listed {
  readonly server: Server
  readonly _meta: Record<string, unknown> & {
    readonly [OFFICIAL]: {
      readonly status: string
      readonly statusMessage?: string
      readonly statusChangedAt: string
      readonly publishedAt: string
      readonly updatedAt: string
      readonly isLatest: boolean
    }
  }
}

export interface List {
  readonly servers: readonly Listed[]
  readonly metadata: { readonly count: number; readonly nextCursor?: string }
}

/** Returns the official block of a listed version. */
export const official = (listed: Listed) => listed._meta[OFFICIAL]

/** Returns `name@version` of each listed version. */
export const labels = ({ servers }: List) => servers.map(({ server: { name, version } }) => `${name}@${version}`)

/** A folder with a configuration and catalogs, whose files are replaced as a whole. */
export interface RegistryFolder {
  readonly directory: string
  readonly configFile: string
  readonly stateDirectory: string
  write(file: string, text: string): Promise<void>
  configure(config: object): Promise<void>
  remove(): Promise<void>
}

export async function registryFolder(): Promise<RegistryFolder> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-registry-'))
  await mkdir(join(directory, 'config'))
  const configFile = join(directory, 'config', 'registry.yaml')
  const replace = async (file: string, text: string) => {
    await writeFile(`${file}.new`, text)
    await rename(`${file}.new`, file)
  }
  return {
    directory,
    configFile,
    stateDirectory: join(directory, 'state'),
    write: (file, text) => replace(join(directory, file), text),
    configure: (config) => replace(configFile, JSON.stringify(config)),
    remove: () => rm(directory, { recursive: true, force: true }),
  }
}

/**
 * Returns a configuration with these file sources (`name: file in the folder`) and a registry `main` over all of them.
 */
export function buildConfig(files: Readonly<Record<string, string>>, rest: object = {}) {
  const sources = Object.entries(files).map(([name, file]) => ({
    name,
    file: { path: `../${file}` },
    // So long that only a change of the file can cause a sync during a test.
    syncPolicy: { interval: '1h' },
  }))
  return {
    sources,
    registries: [{ name: 'main', sources: Object.keys(files) }],
    auth: { mode: 'anonymous' },
    ...rest,
  }
}

export interface Status {
  readonly config: string
  readonly refused: readonly { readonly pointer: string; readonly message: string }[]
  readonly sources: readonly ({ readonly name: string } & SyncState)[]
}

/** A registry that runs in this process. */
export interface TestRegistry {
  readonly folder: RegistryFolder
  readonly url: string
  readonly adminUrl: string
  readonly log: ReturnType<typeof recordLog>
  /** Sends a GET below `/registry/main/v0.1`. */
  get(path: string, headers?: Record<string, string>): Promise<Response>
  /** Returns the body of a GET; throws unless its status is 200. */
  list(path: string): Promise<List>
  one(path: string): Promise<Listed>
  status(): Promise<Status>
  /** Returns the sync state of a source. */
  source(name: string): Promise<SyncState>
  ready(): Promise<void>
  /** Ends the registry; the folder stays. */
  stop(): Promise<void>
  /** Ends the registry and removes the folder. */
  close(): Promise<void>
}

export interface RunOptions {
  readonly observe?: Observe
  /** Divides the times between the syncs of a source. */
  readonly syncsHastenedBy?: number
}

export async function runRegistry(folder: RegistryFolder, options: RunOptions = {}): Promise<TestRegistry> {
  const log = recordLog()
  const { configFile, stateDirectory } = folder
  const { url, adminUrl, close } = await serveRegistry({
    configFile,
    stateDirectory,
    listen: '127.0.0.1:0',
    adminListen: '127.0.0.1:0',
    log: log.log,
    // Telemetry is exported sooner than by default, so that tests do not wait for it.
    exports: { spansAfterMs: 30, metricsEveryMs: 60 },
    ...options,
  })
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${url}/registry/main/v0.1${path}`, { headers })
  const body = async (path: string) => {
    const response = await get(path)
    if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return response.json()
  }
  const status = async () => (await (await fetch(`${adminUrl}/status`)).json()) as Status

  return {
    folder,
    url,
    adminUrl,
    log,
    get,
    list: (path) => body(path) as Promise<List>,
    one: (path) => body(path) as Promise<Listed>,
    status,
    async source(name) {
      const found = (await status()).sources.find((source) => source.name === name)
      if (found === undefined) throw new Error(`no source ${name}`)
      return found
    },
    ready: () => eventually('the registry is ready', async () => (await fetch(`${adminUrl}/readyz`)).status === 200),
    stop: close,
    async close() {
      await close()
      await folder.remove()
    },
  }
}

/** Replaces a registry's configuration, and waits until the new one is in force. Throws if it is refused. */
export async function reconfigure({ folder, status }: TestRegistry, config: object): Promise<void> {
  const before = await status()
  await folder.configure(config)
  await eventually('the configuration is in force', async () => {
    const { config: now, refused } = await status()
    if (refused.length > 0 && JSON.stringify(refused) !== JSON.stringify(before.refused))
      throw new Error(`the configuration is refused: ${JSON.stringify(refused)}`)
    return now !== before.config
  })
}

/** Waits until a sync of each source has succeeded or failed. */
export const allTried = ({ status }: TestRegistry): Promise<void> =>
  eventually('each source was tried', async () => (await status()).sources.every(({ tried }) => tried))

/** A configuration without sources and registries. */
export const NOTHING = { sources: [], registries: [], auth: { mode: 'anonymous' } }

/**
 * Runs a registry over these catalogs (source name: text of its file) and waits until it is ready. `files` are written
 * beside the catalogs.
 */
export async function startRegistry(
  catalogs: Readonly<Record<string, string>>,
  rest: object = {},
  files: Readonly<Record<string, string>> = {},
) {
  const folder = await registryFolder()
  for (const [name, text] of Object.entries(files)) await folder.write(name, text)
  for (const [name, text] of Object.entries(catalogs)) await folder.write(`${name}.json`, text)
  await folder.configure(
    buildConfig(Object.fromEntries(Object.keys(catalogs).map((name) => [name, `${name}.json`])), rest),
  )
  const registry = await runRegistry(folder)
  await registry.ready()
  return registry
}
