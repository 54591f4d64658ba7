/** Sends raw requests to an MCP endpoint, also ones that no well-behaved client sends. */
import type { RpcMessage } from './rpc-message.ts'

export const MODERN = '2026-07-28'

const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
}

export const BASE_HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

export interface RpcAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Undefined if the answer is not JSON; a list if it answers a batch (`batchOf`). */
  readonly json: RpcMessage
}

/** Returns the messages of an answer to a batch. */
export function parseBatch({ text }: RpcAnswer): readonly RpcMessage[] {
  const messages = JSON.parse(text)
  if (!Array.isArray(messages)) throw new Error(`no batch: ${text}`)
  return messages
}

export async function post(url: string, body: string, headers: Record<string, string> = {}): Promise<RpcAnswer> {
  return parseAnswer(await fetch(url, { method: 'POST', headers: { ...BASE_HEADERS, ...headers }, body }))
}

export async function parseAnswer(response: Response): Promise<RpcAnswer> {
  const text = await response.text()
  const type = response.headers.get('content-type') ?? ''
  const json = type.startsWith('application/json') ? JSON.parse(text) : undefined
  return { status: response.status, headers: response.headers, text, json }
}

/** Builds a whole modern request; `edit` may change its parts. */
export function modern(
  method: string,
  params: Record<string, unknown> = {},
  id: unknown = 1,
): { readonly body: string; readonly headers: Record<string, string> } {
  const name = params['name'] ?? params['uri']
  return {
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params: { _meta: META, ...params } }),
    headers: {
      'mcp-protocol-version': MODERN,
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
    },
  }
}

export async function postModern(
  url: string,
  method: string,
  params: Record<string, unknown> = {},
  headers: Record<string, string> = {},
): Promise<RpcAnswer> {
  const request = modern(method, params)
  return post(url, request.body, { ...request.headers, ...headers })
}

export const rpc = (method: string, params: object = {}, id: unknown = 1): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params })

/** Opens a session of the legacy era, and returns the headers for its requests. */
export async function openSession(
  url: string,
  headers: Record<string, string> = {},
  protocolVersion = '2025-11-25',
): Promise<Record<string, string>> {
  const params = { protocolVersion, capabilities: {}, clientInfo: { name: 'raw', version: '1' } }
  const { status, headers: received, json } = await post(url, rpc('initialize', params, 0), headers)
  const session = received.get('mcp-session-id')
  if (status !== 200 || session === null) throw new Error(`no session: ${status}`)
  return { ...headers, 'mcp-session-id': session, 'mcp-protocol-version': json.result.protocolVersion }
}
