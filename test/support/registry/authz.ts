import { type IdentityProvider, startIdentityProvider } from '../network/identity-provider.ts'
import {
  allTried,
  buildConfig,
  NOTHING,
  reconfigure,
  registryFile,
  registryFolder,
  runRegistry,
  server,
  type TestRegistry,
} from './registry.ts'

/** Catalogs, claims and callers of two organizations. */

const AUDIENCE = 'https://registry.example'
export const acme = { org: 'acme' }
export const platform = { org: 'acme', team: 'platform' }
export const data = { org: 'acme', team: 'data' }

export const callers = {
  'platform-writer': { ...platform, role: 'writer' },
  'data-writer': { ...data, role: 'writer' },
  'platform-admin': { ...platform, role: 'admin' },
  'outsider-admin': { org: 'contoso', role: 'admin' },
  'outsider-writer': { org: 'contoso', role: 'writer' },
  outsider: { org: 'contoso' },
  'both-teams': { org: 'acme', team: ['platform', 'data'], role: ['writer', 'admin'] },
  'super-admin': { role: 'super-admin' },
  nobody: {},
} as const
export type CallerName = keyof typeof callers

const roles = {
  superAdmin: [{ role: 'super-admin' }],
  manageSources: [{ role: 'admin' }],
  manageRegistries: [{ role: 'admin' }],
  manageEntries: [{ role: 'writer' }],
}

export interface Reply {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: the answers of dozens of routes, which tests read.
  readonly body: any
}

export interface AuthzRegistry {
  readonly registry: TestRegistry
  readonly idp: IdentityProvider
  /** Sends a request as a caller; undefined for no token, `Bearer …` for this header. */
  as(caller: CallerName | string | undefined, method: string, path: string, body?: unknown): Promise<Reply>
  mintToken(caller: CallerName): Promise<string>
  /**
   * Deletes everything that tests have published, without authorization, and applies a new configuration. Returns a
   * function for the log lines since this call, which include a change of the mode.
   */
  restart(options: AuthzOptions): Promise<() => Record<string, unknown>[]>
  close(): Promise<void>
}

export interface AuthzOptions {
  readonly mode?: 'anonymous' | 'auth-only' | 'full'
  readonly auth?: object
  readonly authz?: object
  readonly config?: object
}

interface Named {
  readonly name: string
}

/** Runs a registry over the fixture and waits until its sources are synced. */
export async function startAuthzRegistry(options: AuthzOptions = {}): Promise<AuthzRegistry> {
  const idp = await startIdentityProvider()
  const folder = await registryFolder()
  await folder.write('shared.json', registryFile([server('com.acme/shared'), server('com.acme/covered', '1.0.0')]))
  await folder.write('platform.json', registryFile([server('com.acme/platform-tool', '1.0.0')]))
  await folder.write(
    'data.json',
    registryFile([server('com.acme/data-tool', '1.0.0'), server('com.acme/covered', '9.0.0')]),
  )
  await folder.configure(configWith(idp, options))
  const registry = await runRegistry(folder)
  await registry.ready()

  const tokens = new Map<string, Promise<string>>()
  const mintToken = (caller: CallerName) => {
    let token = tokens.get(caller)
    if (token === undefined) tokens.set(caller, (token = idp.mint({ aud: AUDIENCE, sub: caller, ...callers[caller] })))
    return token
  }

  return {
    registry,
    idp,
    mintToken,
    async as(caller, method, path, body) {
      const headers: Record<string, string> = {}
      if (caller !== undefined)
        headers['authorization'] = caller in callers ? `Bearer ${await mintToken(caller as CallerName)}` : caller
      if (body !== undefined) headers['content-type'] = 'application/json'
      const response = await fetch(`${registry.url}${path}`, {
        method,
        headers,
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
      const text = await response.text()
      return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
    },
    async restart(options) {
      const first = registry.log.lines.length
      await reconfigure(registry, NOTHING)
      for (const kind of ['registries', 'sources']) {
        const { [kind]: created } = (await (await fetch(`${registry.url}/v1/${kind}`)).json()) as Record<
          string,
          Named[]
        >
        for (const { name } of created ?? []) await fetch(`${registry.url}/v1/${kind}/${name}`, { method: 'DELETE' })
      }
      await reconfigure(registry, configWith(idp, options))
      await allTried(registry)
      return () => registry.log.lines.slice(first)
    },
    async close() {
      await registry.close()
      await idp.close()
    },
  }
}

/** Returns a configuration over the fixture. */
function configWith(idp: IdentityProvider, options: AuthzOptions): object {
  const { mode = 'full' } = options
  const { sources, ...rest } = buildConfig({ shared: 'shared.json', platform: 'platform.json', data: 'data.json' })
  const claims: Record<string, object> = { shared: acme, platform, data }
  return {
    ...rest,
    sources: [
      ...sources.map((source) => ({ ...source, claims: claims[source.name] })),
      { name: 'internal', managed: {}, claims: acme },
    ],
    registries: [
      { name: 'main', sources: ['shared', 'platform', 'data', 'internal'] },
      { name: 'acme-all', sources: ['shared', 'platform', 'data', 'internal'], claims: acme },
      { name: 'acme-platform', sources: ['platform', 'shared'], claims: platform },
      { name: 'acme-data', sources: ['data', 'shared'], claims: data },
    ],
    auth: {
      mode: mode === 'anonymous' ? 'anonymous' : 'oauth',
      ...(mode !== 'anonymous' && {
        oauth: {
          resourceUrl: AUDIENCE,
          providers: [{ name: 'idp', issuerUrl: idp.issuer, audience: AUDIENCE }],
        },
      }),
      ...(mode === 'full' && { authz: { roles, ...options.authz } }),
      ...options.auth,
    },
    ...options.config,
  }
}

/** Returns the path of a server in the consumer API. */
export const serverPath = (registry: string, name: string) =>
  `/registry/${registry}/v0.1/servers/${encodeURIComponent(name)}`

export const entryPath = (name: string, type = 'server') => `/v1/entries/${type}/${encodeURIComponent(name)}`

export const listLabels = ({ body }: Reply) =>
  (body.servers as { server: { name: string } }[]).map(({ server: { name } }) => name)
