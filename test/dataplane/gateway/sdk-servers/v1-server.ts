import { completable } from '@modelcontextprotocol/sdk/server/completable.js'
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js'
import {
  CreateMessageResultSchema,
  ElicitResultSchema,
  ListRootsResultSchema,
  McpError,
  type ServerNotification,
  type ServerRequest,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import type { World } from './world.ts'

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })
const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } }
const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: 'What?' } }]

/** Builds a server with every feature on SDK 1, as most existing servers are written. */
export function buildV1(world: World): McpServer {
  const server = new McpServer(
    { name: 'v1', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        logging: {},
        completions: {},
      },
      instructions: 'Ask it anything.',
    },
  )
  registerAsking(server)
  registerNotifying(server, world)
  offers(server, world)
  return server
}

function registerAsking(server: McpServer): void {
  const tool = (name: string, ask: (extra: Extra) => Promise<unknown>) =>
    server.registerTool(name, {}, async (extra) => text(JSON.stringify(await ask(extra))))
  tool('send_form', ({ sendRequest }) =>
    sendRequest({ method: 'elicitation/create', params: { message: 'Who?', requestedSchema } }, ElicitResultSchema),
  )
  // Without a related request it is sent on the client's open stream.
  tool('elicit_form', () => server.server.elicitInput({ message: 'Who?', requestedSchema }))
  tool('elicit_url', ({ sendRequest }) =>
    sendRequest(
      {
        method: 'elicitation/create',
        params: { mode: 'url', message: 'Look', url: 'https://example.test/x', elicitationId: 'e1' },
      },
      ElicitResultSchema,
    ),
  )
  tool('sample', ({ sendRequest }) =>
    sendRequest({ method: 'sampling/createMessage', params: { messages, maxTokens: 10 } }, CreateMessageResultSchema),
  )
  tool('roots', () => server.server.listRoots())
  tool('send_roots', ({ sendRequest }) => sendRequest({ method: 'roots/list' }, ListRootsResultSchema))
}

function registerNotifying(server: McpServer, world: World): void {
  server.registerTool('steps', {}, async ({ _meta, sendNotification }) => {
    const progressToken = _meta?.progressToken
    for (const progress of [1, 2, 3])
      if (progressToken !== undefined)
        await sendNotification({
          method: 'notifications/progress',
          params: { progressToken, progress, total: 3, message: `step ${progress}` },
        })
    return text('3 steps')
  })
  server.registerTool('log', {}, async ({ sessionId }) => {
    for (const level of ['debug', 'info', 'error'] as const)
      await server.sendLoggingMessage({ level, data: { said: level }, logger: 'logger' }, sessionId)
    return text('logged')
  })
  server.registerTool('slow', {}, async ({ signal }) => {
    world.began++
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    world.cancelled++
    return text('never')
  })
  server.registerTool('count', {}, async () => text(`${world.began} ${world.cancelled}`))
  server.registerTool('break', {}, async ({ closeSSEStream }) => {
    closeSSEStream?.()
    await new Promise((resolve) => setTimeout(resolve, 100))
    return text('went on')
  })
  server.registerTool('fail', {}, async () => ({ ...text('it failed'), isError: true }))
  server.registerTool('throw', {}, async () => {
    throw new Error('thrown')
  })
  server.registerTool('large', {}, async () => text('ü'.repeat(1_500_000)))
  const shape = { inputSchema: { parts: z.array(z.number()) } }
  const outputSchema = { sum: z.number(), parts: z.array(z.number()) }
  server.registerTool('sum', { ...shape, outputSchema }, async ({ parts }) => {
    const structuredContent = { sum: parts.reduce((sum, part) => sum + part, 0), parts }
    return { ...text(JSON.stringify(structuredContent)), structuredContent }
  })
  server.registerTool('grow', {}, async () => {
    world.grow()
    return text('grown')
  })
  server.registerTool('touch', {}, async () => {
    world.touch()
    return text('touched')
  })
}

function offers(server: McpServer, world: World): void {
  const read = async (uri: URL) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: `at ${uri.href}` }] })
  server.registerResource('fixed', 'test://fixed', { mimeType: 'text/plain' }, read)
  server.registerResource('broken', 'test://broken', {}, async () => {
    throw new McpError(-32050, 'broken', { why: 'it is' })
  })
  const complete = { id: async (value: string) => ['one', 'two'].filter((id) => id.startsWith(value)) }
  const template = new ResourceTemplate('test://items/{id}', { list: undefined, complete })
  server.registerResource('items', template, {}, read)
  const city = completable(z.string(), (value) => ['Bern', 'Berlin'].filter((city) => city.startsWith(value)))
  server.registerPrompt('visit', { argsSchema: { city } }, async ({ city }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Visit ${city}` } }],
  }))
  server.server.setRequestHandler(SubscribeRequestSchema, async () => ({}))
  server.server.setRequestHandler(UnsubscribeRequestSchema, async () => ({}))
  if (world.grown) growV1(server)
}

/** Adds a tool, a prompt and a resource; the SDK notifies its client. */
export function growV1(server: McpServer): void {
  server.registerTool('grown', {}, async () => text('here'))
  server.registerPrompt('grown', {}, async () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'here' } }],
  }))
  server.registerResource('grown', 'test://grown', {}, async (uri) => ({ contents: [{ uri: uri.href, text: 'here' }] }))
}
