import { PublicError } from '../../server/errors.ts'
import { checkModern } from '../mcp/classify.ts'
import { callTool, listTools } from './tools.ts'
import type { Turn } from './turn.ts'

/** What is served to requests that describe themselves; everything else is a method that is not found. */
const methods: Readonly<Record<string, (turn: Turn) => void>> = {
  'tools/call': callTool,
  'tools/list': listTools,
  'server/discover': (turn) => turn.result(turn.setup.discovered),
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
