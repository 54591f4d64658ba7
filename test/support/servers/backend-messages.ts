/** Correct messages of a backend, into which tests put wrong values. */

export const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: {},
  resources: { subscribe: true },
  logging: {},
  completions: {},
  tasks: { requests: { tools: { call: {} } } },
  extensions: { 'io.modelcontextprotocol/ui': {} },
}
/** Results, by method. */
export const RESULTS: Readonly<Record<string, object>> = {
  'server/discover': {
    resultType: 'complete',
    supportedVersions: ['2026-07-28'],
    capabilities: CAPABILITIES,
    instructions: 'i',
  },
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: CAPABILITIES,
    serverInfo: { name: 'n', version: '1' },
    instructions: 'i',
  },
  'tools/list': {
    tools: [
      {
        name: 't',
        title: 'T',
        inputSchema: { type: 'object', properties: { a: { type: 'string', 'x-mcp-header': 'A' } } },
        execution: { taskSupport: 'optional' },
        _meta: { ui: { resourceUri: 'ui://p', visibility: ['model'] } },
      },
    ],
    nextCursor: 'c',
  },
  'prompts/list': { prompts: [{ name: 'p', arguments: [{ name: 'a' }] }], nextCursor: 'c' },
  'resources/list': { resources: [{ uri: 'test://a', name: 'a' }], nextCursor: 'c' },
  'resources/templates/list': { resourceTemplates: [{ uriTemplate: 'test://{x}', name: 'x' }], nextCursor: 'c' },
}
/** Answers to `tools/call`, without ids. */
export const ANSWERS: readonly object[] = [
  {
    result: {
      content: [{ type: 'text', text: 'a' }],
      isError: true,
      _meta: { 'io.modelcontextprotocol/related-task': { taskId: 'x' } },
    },
  },
  { result: { task: { taskId: 'x', status: 'working' }, resultType: 'task', taskId: 'x' } },
  {
    result: {
      resultType: 'input_required',
      requestState: 's',
      inputRequests: { k: { method: 'elicitation/create', params: { mode: 'url', url: 'https://x', message: 'm' } } },
    },
  },
  { error: { code: -32042, message: 'm', data: { elicitations: [{ elicitationId: 'e', url: 'https://x' }] } } },
  { error: { code: -32021, message: 'm', data: { requiredCapabilities: {} } } },
]
const params = {
  mode: 'form',
  message: 'm',
  requestedSchema: { type: 'object' },
  _meta: { 'io.modelcontextprotocol/related-task': { taskId: 'x' } },
}
/** Messages of a backend before an answer, or outside of any request. */
export const UNASKED: readonly object[] = [
  { jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params },
  { jsonrpc: '2.0', id: 1, method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } },
  { jsonrpc: '2.0', id: 2, method: 'roots/list', params: {} },
  { jsonrpc: '2.0', id: 3, method: 'ping' },
  { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 1, progress: 1 } },
  { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'd' } },
  { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'q' } },
  { jsonrpc: '2.0', method: 'notifications/tools/list_changed' },
  { jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri: 'test://a' } },
  { jsonrpc: '2.0', method: 'notifications/tasks/status', params: { taskId: 'x', status: 'working' } },
  { jsonrpc: '2.0', method: 'notifications/elicitation/complete', params: { elicitationId: 'e' } },
]
