import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { eventually } from '../eventually.ts'
import { type GatewayUnderTest, startGateway } from './gateway.ts'

/** The suite's settings for the client of a scenario. */
export interface ClientContext {
  readonly toolCalls?: readonly { readonly name: string; readonly arguments: Record<string, unknown> }[]
}

const values: Readonly<Record<string, unknown>> = { number: 5, integer: 5, boolean: true, object: {}, array: [] }

function argumentsFor(schema: unknown): Record<string, unknown> {
  const { properties = {} } = schema as { properties?: Record<string, { type?: string }> }
  return Object.fromEntries(Object.entries(properties).map(([name, { type = '' }]) => [name, values[type] ?? 'text']))
}

/**
 * Starts a gateway with a server of the suite as its only backend, and waits until the gateway knows it. On a busy
 * machine the first try may time out.
 */
export async function startBefore(url: string, role: 'gateway' | 'proxy'): Promise<GatewayUnderTest> {
  const gateway = await startGateway({ role, backends: [{ name: 'suite', url }] })
  await eventually('the server is known', async () => {
    const [backend] = (await gateway.status()).backends
    return backend?.health === 'healthy' && backend.latencyMs !== null
  })
  return gateway
}

/**
 * Acts as the client that the conformance suite tests: starts a gateway with the suite's server as its only backend, and
 * uses everything through it.
 */
export async function driveGateway(url: string, context: ClientContext): Promise<void> {
  const gateway = await startBefore(url, 'proxy')
  const client = new Client(
    { name: 'driver', version: '1.0.0' },
    {
      capabilities: { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} },
      versionNegotiation: { mode: 'auto' },
    },
  )
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: {} }))
  try {
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
    const { tools } = await client.listTools()
    for (const { name, inputSchema } of tools) {
      const calls = (context.toolCalls ?? []).filter((call) => call.name === name).map((call) => call.arguments)
      const schema = tools.find((tool) => tool.name !== name)?.inputSchema
      const own = { ...argumentsFor(inputSchema), ...(name === 'json_schema_echo' ? { schema } : {}) }
      // The suite judges by the requests that its server sees; some of its tools fail on purpose.
      for (const args of calls.length > 0 ? calls : [own])
        await client.callTool({ name, arguments: args }).catch(() => {})
    }
    const capabilities = client.getServerCapabilities()
    if (capabilities?.prompts !== undefined)
      for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name }).catch(() => {})
    if (capabilities?.resources !== undefined)
      for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri }).catch(() => {})
  } finally {
    await client.close()
    await gateway.close()
  }
}
