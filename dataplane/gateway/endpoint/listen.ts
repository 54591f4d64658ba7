import { PublicError } from '../../server/errors.ts'
import { isModernRevision } from '../mcp/revisions.ts'
import { OK } from '../request/request-context.ts'
import { parseEventId } from '../sessions/streams/event-id.ts'
import { checkGet } from './accept.ts'
import { admit } from './admit.ts'
import { goOnWithCall, listenTo } from './come-back.ts'
import type { EndpointRequest } from './endpoint-request.ts'
import { sessionOf } from './legacy.ts'

/** Takes a GET: opens the stream on which a legacy client hears what the gateway says unasked. */
export function get(turn: EndpointRequest): void {
  turn.run(startGet)
}

function startGet(turn: EndpointRequest): void {
  refuseModern(turn)
  admit(turn, openStream)
}

/** Takes a DELETE: ends a legacy client's session. */
export function remove(turn: EndpointRequest): void {
  turn.run(startDelete)
}

function startDelete(turn: EndpointRequest): void {
  refuseModern(turn)
  admit(turn, endSession)
}

async function endSession(turn: EndpointRequest): Promise<void> {
  await turn.gateway.sessions.end(await sessionOf(turn))
  turn.reply.empty(204)
  turn.ended(OK)
}

/** The modern era has POST alone. */
function refuseModern(turn: EndpointRequest): void {
  const version = turn.req.headers['mcp-protocol-version']
  if (typeof version === 'string' && isModernRevision(version))
    throw new PublicError('method_not_allowed', { headers: { allow: 'POST' } })
}

async function openStream(turn: EndpointRequest): Promise<void> {
  checkGet(turn.req)
  const session = await sessionOf(turn)
  if (turn.gateway.closing.aborted)
    throw new PublicError('unavailable', { headers: { 'retry-after': '1', connection: 'close' } })
  const header = turn.req.headers['last-event-id']
  const after = typeof header === 'string' ? parseEventId(header) : undefined
  if (after?.request !== undefined) goOnWithCall(turn, session, after)
  else await listenTo(turn, session, after)
}
