import type { Headed } from './workload.ts'

/** The steps that connect one client. */
export interface ClientSetup {
  readonly client: string
  readonly hint: string
  readonly text: string
  /** A link that opens the client's own dialog; null if it has none. */
  readonly link: string | null
}

export interface ConnectFacts extends Headed {
  readonly url: string | null
  /** The name of the server in the client. */
  readonly clientName: string
  readonly isRegistry: boolean
  readonly setups: readonly ClientSetup[]
  readonly login: LoginFacts | null
}

/** The login that clients meet. */
export interface LoginFacts {
  readonly issuer: string
  readonly host: string
  /** Null where the issuer's metadata could not be read. */
  readonly cimd: boolean | null
  readonly dcr: boolean | null
  readonly problem: string | null
}

/** Quotes a word for a POSIX shell. */
const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)

/** Returns a name that every client takes: letters, digits, underscores and dashes. */
export const clientNameOf = (name: string): string => name.replace(/[^\w-]/g, '-').slice(0, 64) || 'server'

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

/** Returns the setups of a server that is called over HTTP, by client. */
export function setupsOf(name: string, url: string): readonly ClientSetup[] {
  const server = { name, type: 'http', url }
  const cursor = new URLSearchParams({ name, config: Buffer.from(JSON.stringify({ url })).toString('base64') })
  const goose = new URLSearchParams({ type: 'streamable_http', url, id: name, name })
  const isPublic = url.startsWith('https:')
  const connector = (client: string, hint: string): readonly ClientSetup[] =>
    isPublic ? [{ client, hint, text: url, link: null }] : []
  return [
    {
      client: 'VS Code',
      hint: 'Add it by the link, or run this in a terminal.',
      text: `code --add-mcp ${quoted(JSON.stringify(server))}`,
      link: `vscode:mcp/install?${encodeURIComponent(JSON.stringify(server))}`,
    },
    {
      client: 'Cursor',
      hint: 'Add it by the link, or put this into .cursor/mcp.json.',
      text: json({ mcpServers: { [name]: { url } } }),
      link: `cursor://anysphere.cursor-deeplink/mcp/install?${cursor}`,
    },
    {
      client: 'Claude Code',
      hint: 'Run this in a terminal.',
      text: `claude mcp add --transport http ${quoted(name)} ${quoted(url)}`,
      link: null,
    },
    ...connector('Claude', 'Add a custom connector with this URL under Settings, Connectors.'),
    ...connector('ChatGPT', 'Add a connector with this URL under Settings, Connectors.'),
    {
      client: 'Codex',
      hint: 'Run this in a terminal.',
      text: `codex mcp add ${quoted(name)} --url ${quoted(url)}`,
      link: null,
    },
    {
      client: 'Gemini CLI',
      hint: 'Run this in a terminal.',
      text: `gemini mcp add --transport http ${quoted(name)} ${quoted(url)}`,
      link: null,
    },
    {
      client: 'Goose',
      hint: 'Add it by the link, or run this in a terminal.',
      text: `goose session --with-streamable-http-extension ${quoted(url)}`,
      link: `goose://extension?${goose}`,
    },
    {
      client: 'MCP Inspector',
      hint: 'Run this in a terminal: it lists the tools.',
      text: `npx @modelcontextprotocol/inspector --cli ${quoted(url)} --transport http --method tools/list`,
      link: null,
    },
    { client: 'curl', hint: 'Run this in a terminal: it lists the tools.', text: curl(url), link: null },
  ]
}

const curl = (url: string): string =>
  [
    `curl -s ${quoted(url)}`,
    "-H 'Content-Type: application/json'",
    "-H 'Accept: application/json, text/event-stream'",
    "-H 'MCP-Protocol-Version: 2026-07-28'",
    "-H 'Mcp-Method: tools/list'",
    `-d ${quoted(JSON.stringify(listRequest))}`,
  ].join(' \\\n  ')

const registrySetups = (url: string, registries: readonly string[]): readonly ClientSetup[] => [
  ...registries.slice(0, 20).map((name) => ({
    client: `Registry ${name}`,
    hint: 'The base URL for clients that read the MCP registry API.',
    text: `${url}/registry/${name}`,
    link: null,
  })),
  {
    client: 'curl',
    hint: 'Run this in a terminal: it lists the servers.',
    text: `curl -s ${quoted(`${url}/registry/${registries[0] ?? 'NAME'}/v0.1/servers`)}`,
    link: null,
  },
]

interface Connected {
  readonly head: Headed
  readonly url: string | undefined
  readonly name: string | undefined
  readonly registries: readonly string[]
  readonly login: LoginFacts | null
}

/** Collects how clients connect to a workload. */
export function connectFacts({ head, url, name, registries, login }: Connected): ConnectFacts {
  const clientName = clientNameOf(name || head.name)
  const isRegistry = head.kind === 'MCPRegistry'
  const setups = url === undefined ? [] : isRegistry ? registrySetups(url, registries) : setupsOf(clientName, url)
  return { ...head, url: url ?? null, clientName, isRegistry, setups, login }
}
