import type { Attributes } from '@opentelemetry/api'
import { withoutUrlSecrets } from '../../config/url-secrets.ts'
import { withoutCredentials } from '../../server/credential-text.ts'
import type { Details } from '../observe.ts'

/** Names that spans had before the semantic conventions for MCP, by the current ones. */
const OLDER: ReadonlyMap<string, string> = new Map([
  ['gen_ai.prompt.name', 'mcp.prompt.name'],
  ['gen_ai.tool.name', 'mcp.tool.name'],
  ['http.request.method', 'http.method'],
  ['http.response.status_code', 'http.status_code'],
  ['jsonrpc.request.id', 'mcp.request.id'],
  ['mcp.method.name', 'mcp.method'],
  ['mcp.resource.uri', 'mcp.resource.id'],
  ['network.transport', 'mcp.transport'],
  ['rpc.system.name', 'rpc.system'],
  ['url.path', 'http.target'],
  ['url.scheme', 'http.scheme'],
  ['user_agent.original', 'http.user_agent'],
])

/** What a method, a status or a transport is called is shorter than all that `withoutCredentials` takes for one. */
const SHORTEST_CREDENTIAL = 12
/** Longer texts of callers are cut before they are looked at; the SDK cuts what is left. */
const LOOKED_AT = 4_096

/**
 * Details as attributes; with `older` under the names of before, too. What is undefined is left out, and so is what looks
 * like a credential in a text, which may be a caller's.
 */
export function attributesOf(details: Details, older: boolean): Attributes {
  const attributes: Attributes = {}
  for (const name in details) {
    const value = details[name]
    if (value === undefined) continue
    const told = typeof value === 'string' ? withoutSecrets(value) : value
    attributes[name] = told
    const legacy = older ? OLDER.get(name) : undefined
    if (legacy !== undefined) attributes[legacy] = told
  }
  return attributes
}

function withoutSecrets(text: string): string {
  const plain = text.length < SHORTEST_CREDENTIAL ? text : withoutCredentials(text.slice(0, LOOKED_AT))
  return withoutUrlSecrets(plain)
}
