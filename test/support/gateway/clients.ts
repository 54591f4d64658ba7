import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const MODERN = '2026-07-28'
const info = { name: 'test-client', version: '1.0.0' }

export interface ClientOptions {
  readonly headers?: Readonly<Record<string, string>>
}

const init = ({ headers = {} }: ClientOptions) => ({ requestInit: { headers: { ...headers } } })

/** Connects SDK 2, pinned to an era or with its own detection. */
export async function connect(
  url: string,
  era: 'modern' | 'legacy' | 'auto',
  options: ClientOptions = {},
): Promise<{ readonly client: Client; readonly transport: StreamableHTTPClientTransport }> {
  const mode = era === 'modern' ? { pin: MODERN } : era
  const client = new Client(info, { versionNegotiation: { mode } })
  const transport = new StreamableHTTPClientTransport(new URL(url), init(options))
  await client.connect(transport)
  return { client, transport }
}

/** Connects SDK 1, which speaks the legacy era as most clients in use do. */
export async function connectV1(
  url: string,
  options: ClientOptions = {},
): Promise<{ readonly client: ClientV1; readonly transport: TransportV1 }> {
  const client = new ClientV1(info)
  const transport = new TransportV1(new URL(url), init(options))
  await client.connect(transport)
  return { client, transport }
}

/** Returns the text of a tool's answer. */
export const readText = (result: unknown): string =>
  ((result as { content: { text?: string }[] }).content ?? []).map(({ text = '' }) => text).join('')
