import { PublicError } from '../../server/errors.ts'
import { checkModern } from '../mcp/classify.ts'
import { MODERN } from '../mcp/revisions.ts'
import { subscribe } from './listeners.ts'
import { complete, getPrompt, listOf, onceAsked, readResource } from './offers.ts'
import { relayTask } from './tasks.ts'
import { callTool, listTools } from './tools.ts'
import type { Turn } from './turn.ts'

/** What is served to requests that describe themselves; everything else is a method that is not found. */
const methods: Readonly<Record<string, (turn: Turn) => void>> = {
  'tools/call': callTool,
  'tools/list': listTools,
  'prompts/list': (turn) => listOf(turn, 'prompts'),
  'prompts/get': getPrompt,
  'resources/list': (turn) => listOf(turn, 'resources'),
  'resources/templates/list': (turn) => listOf(turn, 'templates'),
  'resources/read': readResource,
  'completion/complete': complete,
  'subscriptions/listen': subscribe,
  'tasks/get': relayTask,
  'tasks/update': relayTask,
  'tasks/cancel': relayTask,
  'server/discover': (turn) => onceAsked(turn, () => discover(turn)),
}

function discover(turn: Turn): void {
  turn.result(
    JSON.stringify({
      resultType: 'complete',
      supportedVersions: [MODERN],
      capabilities: { ...turn.gateway.offers.capabilities, ...turn.gateway.offers.extensions },
      ttlMs: 0,
      cacheScope: 'private',
      _meta: { 'io.modelcontextprotocol/serverInfo': turn.setup.serverInfo },
    }),
  )
}

/** Serves a message of the modern era: it says all there is to know, and leaves nothing behind. */
export function serveModern(turn: Turn): void {
  const { message } = turn
  checkModern(message, turn.req.headers)
  if (message.kind === 'notification') {
    turn.accepted()
    return
  }
  const serve = Object.hasOwn(methods, message.method) ? methods[message.method] : undefined
  if (serve === undefined) throw new PublicError('method_not_found')
  serve(turn)
}
