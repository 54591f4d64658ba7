import type { IncomingMessage } from 'node:http'
import { withoutUrlSecrets } from '../../config/check/url.ts'
import type { Details, Operation } from '../../telemetry/observe.ts'
import type { Message } from '../mcp/message.ts'

/** Methods whose parameter `name` is that of a tool or a prompt. */
const named: Readonly<Record<string, string>> = {
  'tools/call': 'gen_ai.tool.name',
  'prompts/get': 'gen_ai.prompt.name',
}
const CLIENT_INFO = 'io.modelcontextprotocol/clientInfo'
const PROTOCOL = 'mcp-protocol-version'

/** Reads the trace context of a request: from its headers or else from `_meta`, which a stdio server would get. */
export function incomingTrace({ headers }: IncomingMessage, message: Message | undefined) {
  const { traceparent, tracestate } = headers
  if (traceparent !== undefined) return { traceparent, tracestate }
  const meta = message?.meta
  return meta?.['traceparent'] === undefined
    ? undefined
    : { traceparent: meta['traceparent'], tracestate: meta['tracestate'] }
}

/** Returns a message's attributes by the semantic conventions for MCP, without arguments and credentials. */
export function messageDetails(message: Message): Details {
  const { method } = message
  const uri = message.parameter('uri')
  const name = named[method]
  return {
    'mcp.method.name': method,
    'rpc.system.name': 'jsonrpc',
    'jsonrpc.protocol.version': '2.0',
    ...(name === undefined ? {} : { [name]: message.parameter('name') }),
    ...(method === 'tools/call' ? { 'gen_ai.operation.name': 'execute_tool' } : {}),
    ...(uri === undefined ? {} : { 'mcp.resource.uri': plainUri(uri) }),
  }
}

/** Returns an id (JSON text) as the semantic conventions write it: a string without its quotes. */
export const requestIdText = (id: string | undefined): string | undefined =>
  id?.startsWith('"') === true ? (JSON.parse(id) as string) : id

/** Returns the name of the tool or prompt that a message is about; undefined for other methods. */
export const usedBy = (message: Message): string | undefined =>
  named[message.method] === undefined ? undefined : message.parameter('name')

/** Returns the name that the client gives itself in a message; undefined if it gives none. */
export function clientNameIn({ params, meta }: Message): string | undefined {
  const info = params?.['clientInfo'] ?? meta?.[CLIENT_INFO]
  const name = (info as { readonly name?: unknown } | null | undefined)?.name
  return typeof name === 'string' ? name : undefined
}

/** Returns a URI without its query, fragment and credentials. */
export const plainUri = (uri: string): string => withoutUrlSecrets(uri.split(/[?#]/, 1)[0] ?? '')

/** Returns the attributes of a request; `message` is undefined if none was understood. */
export function requestDetails(req: IncomingMessage, message: Message | undefined, client: string): Details {
  const version = req.headers[PROTOCOL]
  return {
    ...(message === undefined ? {} : messageDetails(message)),
    'jsonrpc.request.id': requestIdText(message?.id),
    'mcp.protocol.version': typeof version === 'string' ? version : undefined,
    'http.request.method': req.method,
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'client.address': client === '' ? undefined : client,
    'user_agent.original': req.headers['user-agent'],
  }
}

/** The methods of MCP, of every revision and of both directions. */
const operations = new Map<string, Operation>(
  [
    'initialize',
    'ping',
    'server/discover',
    'tools/list',
    'tools/call',
    'prompts/list',
    'prompts/get',
    'resources/list',
    'resources/templates/list',
    'resources/read',
    'resources/subscribe',
    'resources/unsubscribe',
    'completion/complete',
    'logging/setLevel',
    'subscriptions/listen',
    'tasks/get',
    'tasks/update',
    'tasks/result',
    'tasks/list',
    'tasks/cancel',
    'elicitation/create',
    'roots/list',
    'sampling/createMessage',
    'notifications/cancelled',
    'notifications/elicitation/complete',
    'notifications/initialized',
    'notifications/message',
    'notifications/progress',
    'notifications/prompts/list_changed',
    'notifications/resources/list_changed',
    'notifications/resources/updated',
    'notifications/roots/list_changed',
    'notifications/subscriptions/acknowledged',
    'notifications/tasks',
    'notifications/tasks/status',
    'notifications/tools/list_changed',
  ].map((name) => [name, { kind: 'request', name }]),
)
/** The operation for a client's response to a server's request, which names no method. */
const RESPONSE: Operation = { kind: 'request', name: 'response' }
/** The operation for unknown methods. */
export const OTHER: Operation = { kind: 'request', name: 'other' }
/** Returns the operation of a method. Callers choose method names, so all unknown ones share one operation. */
export const operationOf = (method: string): Operation => operations.get(method) ?? (method === '' ? RESPONSE : OTHER)
