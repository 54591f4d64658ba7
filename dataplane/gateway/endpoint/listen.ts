import { PublicError } from '../../server/errors.ts'
import { isModernRevision } from '../mcp/revisions.ts'
import type { Listening, Session } from '../sessions/sessions.ts'
import { checkGet } from './accept.ts'
import { sessionOf } from './legacy.ts'
import { OK, type Turn } from './turn.ts'

/** What a client that does not read may leave unread before its stream is ended. */
const MOST_UNREAD = 256 * 1024

/** Takes a GET: opens the stream on which a legacy client hears what the gateway says unasked. */
export function get(turn: Turn): void {
  turn.run(startGet)
}

function startGet(turn: Turn): void {
  refuseModern(turn)
  turn.admit(openStream)
}

/** Takes a DELETE: ends a legacy client's session. */
export function remove(turn: Turn): void {
  turn.run(startDelete)
}

function startDelete(turn: Turn): void {
  refuseModern(turn)
  turn.admit(endSession)
}

async function endSession(turn: Turn): Promise<void> {
  await turn.gateway.sessions.end(await sessionOf(turn))
  turn.reply.empty(204)
  turn.ended(OK)
}

/** The modern era has POST alone. */
function refuseModern(turn: Turn): void {
  const version = turn.req.headers['mcp-protocol-version']
  if (typeof version === 'string' && isModernRevision(version))
    throw new PublicError('method_not_allowed', { headers: { allow: 'POST' } })
}

async function openStream(turn: Turn): Promise<void> {
  checkGet(turn.req)
  const session = await sessionOf(turn)
  if (turn.gateway.closing.aborted)
    throw new PublicError('unavailable', { headers: { 'retry-after': '1', connection: 'close' } })
  const stream = new SessionStream(turn, session)
  // A client that comes again has lost its old stream, whether or not that is known here yet.
  session.listening?.end()
  session.listening = stream
  turn.reply.stream(['mcp-session-id', session.record.id])
  turn.gateway.sessions.hearBackends(session)
  await turn.gateway.sessions.listensHere(session)
}

class SessionStream implements Listening {
  readonly #turn: Turn
  readonly #session: Session

  constructor(turn: Turn, session: Session) {
    this.#turn = turn
    this.#session = session
    turn.reply.res.on('close', () => this.#closed())
  }

  say(message: string): void {
    if (this.#turn.reply.res.writableLength > MOST_UNREAD) this.end()
    else this.#turn.reply.message(message)
  }

  sign(): void {
    this.#turn.reply.keepAlive()
  }

  end(): void {
    this.#closed()
    this.#turn.reply.end()
  }

  #closed(): void {
    if (this.#session.listening === this) {
      this.#session.listening = undefined
      for (const link of this.#session.openLinks) link.unhear()
    }
    this.#turn.ended(OK)
  }
}
