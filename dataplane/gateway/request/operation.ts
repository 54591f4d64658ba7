import type { Operation } from '../../telemetry/observe.ts'

/** All methods of MCP, of every revision and of both directions. */
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
/** A client's answer to a request of a server, which names no method. */
const RESPONSE: Operation = { kind: 'request', name: 'response' }
/** Of what we don't know. */
export const OTHER: Operation = { kind: 'request', name: 'other' }
/** Names of methods come from callers: what we don't know is one name. */
export const operationOf = (method: string): Operation => operations.get(method) ?? (method === '' ? RESPONSE : OTHER)
