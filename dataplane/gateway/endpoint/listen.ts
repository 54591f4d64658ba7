import { PublicError } from '../../server/errors.ts'
import { isModernRevision } from '../mcp/revisions.ts'
import { OK } from '../request/exchange.ts'
import { parseEventId } from '../sessions/streams/event-id.ts'
import { admit, checkGet } from './incoming/admit.ts'
import type { EndpointExchange } from './incoming/endpoint-exchange.ts'
import { sessionOf } from './legacy.ts'
import { openSessionStream, resumeAnswer } from './streams/resume.ts'

/** Serves a GET: opens the stream on which a legacy client gets messages outside of any request. */
export function get(request: EndpointExchange): void {
  request.run(startGet)
}

function startGet(request: EndpointExchange): void {
  refuseModern(request)
  admit(request, openStream)
}

/** Serves a DELETE: ends a legacy client's session. */
export function remove(request: EndpointExchange): void {
  request.run(startDelete)
}

function startDelete(request: EndpointExchange): void {
  refuseModern(request)
  admit(request, endSession)
}

async function endSession(request: EndpointExchange): Promise<void> {
  const session = await sessionOf(request)
  request.tellSession(session.record.id)
  await request.gateway.sessions.end(session)
  request.reply.empty(204)
  request.ended(OK)
}

/** Rejects other methods in the modern era, which has only POST. */
function refuseModern(request: EndpointExchange): void {
  const version = request.req.headers['mcp-protocol-version']
  if (typeof version === 'string' && isModernRevision(version))
    throw new PublicError('method_not_allowed', { headers: { allow: 'POST' } })
}

async function openStream(request: EndpointExchange): Promise<void> {
  checkGet(request.req)
  const session = await sessionOf(request)
  request.tellSession(session.record.id)
  if (request.gateway.closing.aborted)
    throw new PublicError('unavailable', { headers: { 'retry-after': '1', connection: 'close' } })
  const header = request.req.headers['last-event-id']
  const after = typeof header === 'string' ? parseEventId(header) : undefined
  if (after?.request !== undefined) resumeAnswer(request, session, after)
  else await openSessionStream(request, session, after)
}
