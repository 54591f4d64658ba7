import type { LoadRequest } from './load.ts'

export type Era = 'modern' | 'legacy'

const BASE = ['content-type', 'application/json', 'accept', 'application/json, text/event-stream']
const envelope = JSON.stringify({
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
})

/** Builds a request of the modern era. `name` is the value of its header. */
export function modernRequest(
  method: string,
  params: object,
  { expects, name, headers = [] }: { expects: string; name?: string; headers?: readonly string[] },
): LoadRequest {
  const about = name === undefined ? [] : ['mcp-name', name]
  const body = `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{${JSON.stringify(params).slice(1, -1)}${
    Object.keys(params).length === 0 ? '' : ','
  }"_meta":${envelope}}}`
  return {
    headers: [...BASE, 'mcp-protocol-version', '2026-07-28', 'mcp-method', method, ...about, ...headers],
    body,
    expects,
  }
}

export function toolCall(
  era: Era,
  session: string | undefined,
  name: string,
  worker: number,
  count: number,
): LoadRequest {
  const message = `w${worker}-c${count}-${'some text to carry along '.repeat(4)}`
  const args = JSON.stringify({ message })
  if (era === 'modern')
    return {
      headers: [...BASE, 'mcp-protocol-version', '2026-07-28', 'mcp-method', 'tools/call', 'mcp-name', name],
      body: `{"jsonrpc":"2.0","id":${count},"method":"tools/call","params":{"name":"${name}","arguments":${args},"_meta":${envelope}}}`,
      expects: message,
    }
  return {
    headers: [...BASE, 'mcp-protocol-version', '2025-11-25', ...(session ? ['mcp-session-id', session] : [])],
    body: `{"jsonrpc":"2.0","id":${count},"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`,
    expects: message,
  }
}

export function toolsList(era: Era, session: string | undefined): LoadRequest {
  if (era === 'modern')
    return {
      headers: [...BASE, 'mcp-protocol-version', '2026-07-28', 'mcp-method', 'tools/list'],
      body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":${envelope}}}`,
      expects: 'tool_19',
    }
  return {
    headers: [...BASE, 'mcp-protocol-version', '2025-11-25', ...(session ? ['mcp-session-id', session] : [])],
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}',
    expects: 'tool_19',
  }
}

/** Opens a session of the legacy era, for the token's caller if there is one, and returns its id. */
export async function openSession(url: string, token?: string): Promise<string> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  }
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } }
  const answer = await fetch(url, {
    method: 'POST',
    headers,
    body: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params }),
  })
  await answer.text()
  const session = answer.headers.get('mcp-session-id')
  if (session === null) throw new Error(`no session: ${answer.status}`)
  await fetch(url, {
    method: 'POST',
    headers: { ...headers, 'mcp-session-id': session },
    body: '{"jsonrpc":"2.0","method":"notifications/initialized"}',
  })
  return session
}
