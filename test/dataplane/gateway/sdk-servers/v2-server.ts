import {
  acceptedContent,
  completable,
  inputRequired,
  inputResponse,
  McpServer,
  ProtocolError,
  ResourceTemplate,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { World } from './world.ts'

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })
const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } }
const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: 'What?' } }]

/** Builds a server with every feature on SDK 2, as its examples are written. */
export function buildV2(world: World): McpServer {
  const server = new McpServer(
    { name: 'v2', version: '1.0.0' },
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

type Answer = Awaited<ReturnType<typeof inputRequired>> | ReturnType<typeof text>

function registerAsking(server: McpServer): void {
  const tool = (name: string, ask: (context: ServerContext) => Promise<unknown>) =>
    server.registerTool(name, {}, async (context) => text(JSON.stringify(await ask(context))))
  tool('send_form', ({ mcpReq }) =>
    mcpReq.send({ method: 'elicitation/create', params: { message: 'Who?', requestedSchema } }),
  )
  tool('elicit_form', ({ mcpReq }) => mcpReq.elicitInput({ message: 'Who?', requestedSchema }))
  tool('elicit_url', ({ mcpReq }) =>
    mcpReq.elicitInput({ mode: 'url', message: 'Look', url: 'https://example.test/x', elicitationId: 'e1' }),
  )
  tool('sample', ({ mcpReq }) => mcpReq.requestSampling({ messages, maxTokens: 10 }))
  tool('roots', () => server.server.listRoots())
  tool('send_roots', ({ mcpReq }) => mcpReq.send({ method: 'roots/list' }))
  server.registerTool('inputs', {}, async ({ mcpReq }): Promise<Answer> => {
    const { inputResponses } = mcpReq
    const accepted = acceptedContent<{ name?: unknown }>(inputResponses, 'name')
    const sampled = inputResponse(inputResponses, 'sample')
    const roots = inputResponse(inputResponses, 'roots')
    if (sampled.kind === 'sampling' && roots.kind === 'roots')
      return text(JSON.stringify([accepted, sampled.result, roots.roots]))
    return inputRequired({
      inputRequests: {
        name: inputRequired.elicit({ message: 'Who?', requestedSchema }),
        sample: inputRequired.createMessage({ messages, maxTokens: 10 }),
        roots: inputRequired.listRoots(),
      },
    })
  })
  server.registerTool('input_url', {}, async ({ mcpReq }): Promise<Answer> => {
    const view = inputResponse(mcpReq.inputResponses, 'go')
    if (view.kind !== 'missing') return text(JSON.stringify(view))
    const go = inputRequired.elicitUrl({ message: 'Look', url: 'https://example.test/y' })
    return inputRequired({ inputRequests: { go } })
  })
}

function registerNotifying(server: McpServer, world: World): void {
  server.registerTool('steps', {}, async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken
    for (const progress of [1, 2, 3])
      if (progressToken !== undefined)
        await mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress, total: 3, message: `step ${progress}` },
        })
    return text('3 steps')
  })
  server.registerTool('log', {}, async ({ mcpReq }) => {
    for (const level of ['debug', 'info', 'error'] as const) await mcpReq.log(level, { said: level }, 'logger')
    return text('logged')
  })
  server.registerTool('slow', {}, async ({ mcpReq }) => {
    world.began++
    await new Promise<void>((resolve) => mcpReq.signal.addEventListener('abort', () => resolve()))
    world.cancelled++
    return text('never')
  })
  server.registerTool('count', {}, async () => text(`${world.began} ${world.cancelled}`))
  server.registerTool('break', {}, async ({ http }) => {
    http?.closeSSE?.()
    await new Promise((resolve) => setTimeout(resolve, 100))
    return text('went on')
  })
  server.registerTool('fail', {}, async () => ({ ...text('it failed'), isError: true }))
  server.registerTool('throw', {}, async () => {
    throw new Error('thrown')
  })
  server.registerTool('large', {}, async () => text('ü'.repeat(1_500_000)))
  const shape = { outputSchema: z.object({ sum: z.number(), parts: z.array(z.number()) }) }
  server.registerTool('sum', { ...shape, inputSchema: z.object({ parts: z.array(z.number()) }) }, async ({ parts }) => {
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
    throw new ProtocolError(-32050, 'broken', { why: 'it is' })
  })
  const complete = { id: async (value: string) => ['one', 'two'].filter((id) => id.startsWith(value)) }
  const template = new ResourceTemplate('test://items/{id}', { list: undefined, complete })
  server.registerResource('items', template, {}, read)
  const argsSchema = z.object({
    city: completable(z.string(), (value) => ['Bern', 'Berlin'].filter((city) => city.startsWith(value))),
  })
  server.registerPrompt('visit', { argsSchema }, async ({ city }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Visit ${city}` } }],
  }))
  server.server.setRequestHandler('resources/subscribe', async () => ({}))
  server.server.setRequestHandler('resources/unsubscribe', async () => ({}))
  if (world.grown) growV2(server)
}

/** Adds a tool, a prompt and a resource; the SDK notifies its client. */
export function growV2(server: McpServer): void {
  server.registerTool('grown', {}, async () => text('here'))
  server.registerPrompt('grown', {}, async () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'here' } }],
  }))
  server.registerResource('grown', 'test://grown', {}, async (uri) => ({ contents: [{ uri: uri.href, text: 'here' }] }))
}
