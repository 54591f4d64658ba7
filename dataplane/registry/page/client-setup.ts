import { isObject } from '../catalog/official-meta.ts'

/** How a server is added to one client: a text to copy, and what to do with it. */
export interface Setup {
  readonly client: string
  readonly hint: string
  readonly text: string
}

/** The parts of a server document that say how it is reached. Documents of synced sources may have anything in them. */
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

type Connection =
  | { readonly type: 'http' | 'sse'; readonly url: string }
  | { readonly command: string; readonly args: readonly string[]; readonly env?: Readonly<Record<string, string>> }

/** What is typed to add a server to the clients that people use; none where the document names no way to reach it. */
export function clientSetups(server: Reachable): readonly Setup[] {
  const connection = remoteOf(server) ?? packageOf(server)
  if (connection === undefined) return []
  const name = (server.name.split('/').at(-1) ?? server.name).replace(/[^\w-]/g, '-')
  const typed = 'url' in connection ? connection : { type: 'stdio', ...connection }
  return [
    {
      client: 'VS Code',
      hint: 'Put this into .vscode/mcp.json, or into the user’s with “MCP: Open User Configuration”.',
      text: json({ servers: { [name]: typed } }),
    },
    { client: 'Claude Code', hint: 'Run this in a terminal.', text: claudeCommand(name, connection) },
    {
      client: 'Cursor',
      hint: 'Put this into .cursor/mcp.json, or into ~/.cursor/mcp.json for all projects.',
      text: json({ mcpServers: { [name]: 'url' in connection ? { url: connection.url } : connection } }),
    },
    {
      client: 'Claude Desktop',
      hint:
        'url' in connection
          ? 'Add a custom connector with this URL under Settings, Connectors.'
          : 'Put this into claude_desktop_config.json.',
      text: 'url' in connection ? connection.url : json({ mcpServers: { [name]: connection } }),
    },
  ]
}

/** JSON as people write it: objects over several lines, lists in one. */
function json(value: unknown, indent = ''): string {
  if (Array.isArray(value)) return `[${value.map((item) => JSON.stringify(item)).join(', ')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const inner = `${indent}  `
  const members = Object.entries(value).map(([key, member]) => `${inner}${JSON.stringify(key)}: ${json(member, inner)}`)
  return `{\n${members.join(',\n')}\n${indent}}`
}

function remoteOf({ remotes }: Reachable): Connection | undefined {
  for (const { type, url } of remotes ?? [])
    if (typeof url === 'string' && /^https?:\/\//i.test(url)) return { type: type === 'sse' ? 'sse' : 'http', url }
  return undefined
}

/** Runners by the registry that a package is in. */
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

function packageOf({ packages }: Reachable): Connection | undefined {
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

function claudeCommand(name: string, connection: Connection): string {
  if ('url' in connection) return `claude mcp add --transport ${connection.type} ${name} ${quoted(connection.url)}`
  const { command, args, env = {} } = connection
  const variables = Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`])
  return ['claude', 'mcp', 'add', name, ...variables, '--', command, ...args].map(quoted).join(' ')
}

/** A word for a POSIX shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
