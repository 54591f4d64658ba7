import { isObject } from '../../crds/settings/json.ts'
import { quoted } from '../../dataplane/pages/client-setup.ts'
import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'
import { registrySettings } from './catalog.ts'
import type { Headed } from './workload.ts'

/** The steps that connect one client. */
export interface ClientSetup {
  readonly client: string
  readonly hint: string
  readonly text: string
  /** A link that opens the client's own dialog; null if it has none. */
  readonly link: string | null
}

export type ConnectFacts = ReturnType<typeof connectFacts>

/** The facts about a client's login. Unknown facts are null. */
export interface LoginFacts {
  readonly issuer: string | null
  /** The host at which a browser logs in. */
  readonly host: string | null
  /** The resource that tokens are for (RFC 8707). */
  readonly resource: string | null
  readonly scopes: readonly string[]
  /** True if the authorization server accepts Client ID Metadata Documents. */
  readonly cimd: boolean | null
  /** True if clients may register themselves (RFC 7591). */
  readonly dcr: boolean | null
  readonly problem: string | null
}

/**
 * Returns a name that every client accepts: letters, digits, underscores and dashes, not beginning with a dash (an
 * option).
 */
export const fitClientName = (name: string): string =>
  name
    .replace(/[^\w-]/g, '-')
    .replace(/^-+/, '')
    .slice(0, 64) || 'server'

const json = (value: object): string => JSON.stringify(value, null, 2)

const listRequest = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/list',
  params: {
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
}

/** The header with a token, for programs that don't log in by themselves. */
const TOKEN_HEADER = '"Authorization: Bearer $TOKEN"'

const TERMINAL = 'Run this in a terminal.'

const setup = (client: string, hint: string, text: string, link: string | null = null): ClientSetup => ({
  client,
  hint,
  text,
  link,
})

/** Returns the setup steps for a server over HTTP, by client. `isClosed`: callers need a token. */
export function buildSetups(name: string, url: string, isClosed = false): readonly ClientSetup[] {
  const server = { name, type: 'http', url }
  const cursor = new URLSearchParams({ name, config: Buffer.from(JSON.stringify({ url })).toString('base64') })
  const goose = new URLSearchParams({ type: 'streamable_http', url, id: name, name })
  const isPublic = url.startsWith('https:')
  const connector = (client: string, hint: string) => (isPublic ? [setup(client, hint, url)] : [])
  const lists = `Run this in a terminal${isClosed ? ', with an access token in TOKEN' : ''}: it lists the tools.`
  return [
    setup(
      'VS Code',
      'Add it by the link, or run this in a terminal.',
      `code --add-mcp ${quoted(JSON.stringify(server))}`,
      `vscode:mcp/install?${encodeURIComponent(JSON.stringify(server))}`,
    ),
    setup(
      'Cursor',
      'Add it by the link, or put this into .cursor/mcp.json.',
      json({ mcpServers: { [name]: { url } } }),
      `cursor://anysphere.cursor-deeplink/mcp/install?${cursor}`,
    ),
    setup('Claude Code', TERMINAL, `claude mcp add --transport http ${quoted(name)} ${quoted(url)}`),
    ...connector('Claude', 'Add a custom connector with this URL under Settings, Connectors.'),
    ...connector('ChatGPT', 'Add a connector with this URL under Settings, Connectors.'),
    setup('Codex', TERMINAL, `codex mcp add ${quoted(name)} --url ${quoted(url)}`),
    setup('Gemini CLI', TERMINAL, `gemini mcp add --transport http ${quoted(name)} ${quoted(url)}`),
    setup(
      'Goose',
      'Add it by the link, or run this in a terminal.',
      `goose session --with-streamable-http-extension ${quoted(url)}`,
      `goose://extension?${goose}`,
    ),
    setup(
      'MCP Inspector',
      lists,
      `npx @modelcontextprotocol/inspector --cli ${quoted(url)} --transport http --method tools/list${isClosed ? ` --header ${TOKEN_HEADER}` : ''}`,
    ),
    setup('curl', lists, curl(url, isClosed)),
  ]
}

const curl = (url: string, isClosed: boolean): string =>
  [
    `curl -s ${quoted(url)}`,
    "-H 'Content-Type: application/json'",
    "-H 'Accept: application/json, text/event-stream'",
    "-H 'MCP-Protocol-Version: 2026-07-28'",
    "-H 'Mcp-Method: tools/list'",
    ...(isClosed ? [`-H ${TOKEN_HEADER}`] : []),
    `-d ${quoted(JSON.stringify(listRequest))}`,
  ].join(' \\\n  ')

const registrySetups = (url: string, registries: readonly string[], isClosed: boolean): readonly ClientSetup[] => [
  ...registries
    .slice(0, 20)
    .map((name) =>
      setup(`Registry ${name}`, 'The base URL for clients that read the MCP registry API.', `${url}/registry/${name}`),
    ),
  setup(
    'curl',
    `Run this in a terminal${isClosed ? ', with an access token in TOKEN' : ''}: it lists the servers.`,
    `curl -s ${isClosed ? `-H ${TOKEN_HEADER} ` : ''}${quoted(`${url}/registry/${registries[0] ?? 'NAME'}/v0.1/servers`)}`,
  ),
]

interface Connected {
  readonly head: Headed
  readonly url: string | undefined
  readonly name: string | undefined
  readonly registries: readonly string[]
  readonly login: LoginFacts | null
}

/** Collects how clients connect to a workload. `clientName`: the name of the server in the client. */
export function connectFacts({ head, url, name, registries, login }: Connected) {
  const clientName = fitClientName(name || head.name)
  const isRegistry = head.kind === 'MCPRegistry'
  const setups =
    url === undefined
      ? []
      : isRegistry
        ? registrySetups(url, registries, login !== null)
        : buildSetups(clientName, url, login !== null)
  return { ...head, url: url ?? null, clientName, isRegistry, setups, login }
}

/** Returns the value at a path; undefined if there is none. */
export const at = (value: unknown, ...path: readonly string[]): unknown =>
  path.reduce<unknown>((part, name) => (isObject(part) ? part[name] : undefined), value)

const texts = (...values: readonly unknown[]): readonly string[] =>
  values.filter((value): value is string => typeof value === 'string' && value !== '')

/**
 * Returns the issuers that a workload's configuration names: those of its MCPOIDCConfig, of its own authorization
 * server, or of the providers of a registry. The console logs in at no other issuer.
 */
export function findIssuers(object: KubernetesObject, objects: ObjectIndex): readonly string[] {
  const { kind, metadata } = object
  const spec = object['spec']
  const findNamed = (of: string, ...path: readonly string[]): KubernetesObject | undefined => {
    const name = at(spec, ...path, 'name')
    return typeof name === 'string' ? objects.get(of, metadata.namespace ?? 'default', name) : undefined
  }
  if (kind === 'MCPRegistry') {
    const providers = at(registrySettings(object), 'auth', 'oauth', 'providers')
    return texts(...(Array.isArray(providers) ? providers.map((provider) => at(provider, 'issuerUrl')) : []))
  }
  const oidc =
    findNamed('MCPOIDCConfig', 'incomingAuth', 'oidcConfigRef') ?? findNamed('MCPOIDCConfig', 'oidcConfigRef')
  const own = ['authServerRef', 'externalAuthConfigRef'].map((ref) => findNamed('MCPExternalAuthConfig', ref))
  return texts(
    at(oidc, 'spec', 'inline', 'issuer'),
    at(spec, 'authServerConfig', 'issuer'),
    ...own.map((config) => at(config, 'spec', 'embeddedAuthServer', 'issuer')),
  )
}
