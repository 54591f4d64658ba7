import { PublicError } from '../../server/errors.ts'
import { checkModern } from '../mcp/classify.ts'
import { callTool, listTools } from './tools.ts'
import type { Turn } from './turn.ts'

/** Serves a message of the modern era: it says all there is to know, and leaves nothing behind. */
export function serveModern(turn: Turn): void {
  const { message } = turn
  checkModern(message, turn.req.headers)
  if (message.kind === 'notification') return turn.accepted()
  switch (message.method) {
    case 'tools/call':
      return callTool(turn)
    case 'tools/list':
      return listTools(turn)
    case 'server/discover':
      return turn.result(turn.setup.discovered)
    default:
      throw new PublicError('method_not_found')
  }
}
