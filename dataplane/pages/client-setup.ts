import { html } from 'hono/html'
import type { Markup } from './page.ts'

/** The instructions to add a server to one client: a text to copy, and what to do with it. */
export interface Setup {
  readonly client: string
  readonly hint: string
  readonly text: string
}

/** The way a client reaches a server: at an address, or by a command that it runs. */
export type Connection =
  | { readonly type: 'http' | 'sse'; readonly url: string }
  | { readonly command: string; readonly args: readonly string[]; readonly env?: Readonly<Record<string, string>> }

/** Returns the setups for common clients. `name` is the server's name in the client. */
export function setupsFor(title: string, connection: Connection): readonly Setup[] {
  const name = title.replace(/[^\w-]/g, '-')
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

/** Formats JSON as people write it: objects over several lines, lists in one. */
function json(value: unknown, indent = ''): string {
  if (Array.isArray(value)) return `[${value.map((item) => JSON.stringify(item)).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const inner = `${indent}  `
  const members = Object.entries(value).map(([key, member]) => `${inner}${JSON.stringify(key)}: ${json(member, inner)}`)
  return `{\n${members.join(',\n')}\n${indent}}`
}

function claudeCommand(name: string, connection: Connection): string {
  if ('url' in connection) return `claude mcp add --transport ${connection.type} ${name} ${quoted(connection.url)}`
  const { command, args, env = {} } = connection
  const variables = Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`])
  return ['claude', 'mcp', 'add', name, ...variables, '--', command, ...args].map(quoted).join(' ')
}

export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** Renders a collapsible section for each client; the first one is open. */
export const setupList = (setups: readonly Setup[]): Markup =>
  html`${setups.map(
    ({ client, hint, text }, index) => html`<details${index === 0 ? html` open` : ''}><summary>${client}</summary>
<p class="small soft">${hint}</p>
<pre role="group" tabindex="0" aria-label="${client}">${text}</pre></details>`,
  )}`
