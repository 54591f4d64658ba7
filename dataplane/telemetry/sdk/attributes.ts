import type { Attributes } from '@opentelemetry/api'
import type { Details } from '../observe.ts'

/** Names that spans had before the semantic conventions for MCP, by the current ones. */
const OLDER: ReadonlyMap<string, string> = new Map([
  ['gen_ai.prompt.name', 'mcp.prompt.name'],
  ['gen_ai.tool.name', 'mcp.tool.name'],
  ['http.request.method', 'http.method'],
  ['jsonrpc.request.id', 'mcp.request.id'],
  ['mcp.method.name', 'mcp.method'],
  ['mcp.resource.uri', 'mcp.resource.id'],
  ['network.transport', 'mcp.transport'],
  ['rpc.system.name', 'rpc.system'],
  ['url.path', 'http.target'],
  ['user_agent.original', 'http.user_agent'],
])

/** Details as attributes; with `older` under the names of before, too. What is undefined is left out. */
export function attributesOf(details: Details, older: boolean): Attributes {
  const attributes: Attributes = {}
  for (const [name, value] of Object.entries(details)) {
    if (value === undefined) continue
    attributes[name] = value
    const legacy = older ? OLDER.get(name) : undefined
    if (legacy !== undefined) attributes[legacy] = value
  }
  return attributes
}
