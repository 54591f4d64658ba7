import { completable, fromJsonSchema, type McpServer, ResourceTemplate } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Changes } from './reference.ts'

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA='

export const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Adds the reference's tools, resources and prompts that ask the client nothing. */
export function registerContent(server: McpServer, changes: Changes): void {
  registerTools(server, changes)
  registerResources(server)
  registerPrompts(server)
}

function registerTools(server: McpServer, changes: Changes): void {
  const tool = (name: string, content: () => unknown[]) =>
    server.registerTool(name, { description: name }, async () => ({ content: content() as never }))
  tool('test_simple_text', () => [{ type: 'text', text: 'This is a simple text response for testing.' }])
  tool('test_image_content', () => [{ type: 'image', data: PNG, mimeType: 'image/png' }])
  tool('test_audio_content', () => [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }])
  tool('test_embedded_resource', () => [
    {
      type: 'resource',
      resource: {
        uri: 'test://embedded-resource',
        mimeType: 'text/plain',
        text: 'This is an embedded resource content.',
      },
    },
  ])
  tool('test_multiple_content_types', () => [
    { type: 'text', text: 'Multiple content types test:' },
    { type: 'image', data: PNG, mimeType: 'image/png' },
    {
      type: 'resource',
      resource: {
        uri: 'test://mixed-content-resource',
        mimeType: 'application/json',
        text: '{"test":"data","value":123}',
      },
    },
  ])
  server.registerTool('test_error_handling', { description: 'Fails' }, async () => ({
    ...text('This tool intentionally returns an error for testing'),
    isError: true,
  }))
  for (const name of ['test_tool_with_logging', 'test_logging_tool'])
    server.registerTool(name, { description: 'Logs' }, async (context) => {
      for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
        await context.mcpReq.log('info', data)
        await pause(30)
      }
      return text('logged')
    })
  server.registerTool('test_tool_with_progress', { description: 'Reports progress' }, async (context) => {
    const progressToken = context.mcpReq._meta?.progressToken
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined)
        await context.mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress, total: 100 },
        })
      await pause(30)
    }
    return text('done')
  })
  server.registerTool(
    'test_x_mcp_header',
    {
      description: 'Has a parameter in a header',
      inputSchema: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }),
    },
    async ({ region }) => text(region),
  )
  server.registerTool('test_reconnection', { description: 'Breaks its stream off' }, async ({ http }) => {
    http?.closeSSE?.()
    await pause(100)
    return text('The stream was gone on with.')
  })
  server.registerTool('test_trigger_tool_change', { description: 'Tools change' }, async () => {
    changes.tools()
    return text('told')
  })
  server.registerTool('test_trigger_prompt_change', { description: 'Prompts change' }, async () => {
    changes.prompts()
    return text('told')
  })
  server.registerTool(
    'json_schema_2020_12_tool',
    { description: 'Tool with JSON Schema 2020-12 features', inputSchema: fromJsonSchema(SCHEMA_2020) },
    async () => text('ok'),
  )
}

const SCHEMA_2020 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object' as const,
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
}

function registerResources(server: McpServer): void {
  const registerResource = (
    name: string,
    uri: string,
    mimeType: string,
    content: { text: string } | { blob: string },
  ) => server.registerResource(name, uri, { mimeType }, async () => ({ contents: [{ uri, mimeType, ...content }] }))
  registerResource('static-text', 'test://static-text', 'text/plain', {
    text: 'This is the content of the static text resource.',
  })
  registerResource('static-binary', 'test://static-binary', 'image/png', { blob: PNG })
  registerResource('watched', 'test://watched-resource', 'text/plain', { text: 'watched' })
  server.registerResource(
    'template',
    new ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { mimeType: 'application/json' },
    async (uri, { id }) => ({
      contents: [
        {
          uri: uri.href,
          mimeType: 'application/json',
          text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${String(id)}` }),
        },
      ],
    }),
  )
}

/** A prompt that can be added and removed. */
export const registerExtraPrompt = (server: McpServer) =>
  server.registerPrompt('test_extra_prompt', { description: 'Comes and goes' }, async () => ({
    messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'extra' } }],
  }))

/** A tool that can be added and removed. */
export const registerExtraTool = (server: McpServer) =>
  server.registerTool('test_extra_tool', { description: 'Comes and goes' }, async () => text('extra'))

function registerPrompts(server: McpServer): void {
  const user = (content: object) => ({ role: 'user' as const, content: content as never })
  const userText = (value: string) => user({ type: 'text', text: value })
  server.registerPrompt('test_simple_prompt', { description: 'Simple' }, async () => ({
    messages: [userText('This is a simple prompt for testing.')],
  }))
  server.registerPrompt(
    'test_prompt_with_arguments',
    {
      description: 'With arguments',
      argsSchema: z.object({
        arg1: completable(z.string(), (value) => ['paris', 'park', 'party'].filter((word) => word.startsWith(value))),
        arg2: z.string(),
      }),
    },
    async ({ arg1, arg2 }) => ({ messages: [userText(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)] }),
  )
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'With a resource', argsSchema: z.object({ resourceUri: z.string() }) },
    async ({ resourceUri }) => ({
      messages: [
        user({
          type: 'resource',
          resource: { uri: resourceUri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' },
        }),
        userText('Please process the embedded resource above.'),
      ],
    }),
  )
  server.registerPrompt('test_prompt_with_image', { description: 'With an image' }, async () => ({
    messages: [user({ type: 'image', data: PNG, mimeType: 'image/png' }), userText('Please analyze the image above.')],
  }))
}
