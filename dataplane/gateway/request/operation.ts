import type { Operation } from '../../telemetry/observe.ts'

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
  ].map((name) => [name, { kind: 'request', name }]),
)
/** Of what we don't know. */
export const OTHER: Operation = { kind: 'request', name: 'other' }
/** Names of methods come from callers: what we don't know is one name. */
export const operationOf = (method: string): Operation => operations.get(method) ?? OTHER
