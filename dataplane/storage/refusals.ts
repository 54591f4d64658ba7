import type { EventEmitter } from 'node:events'
import type { Logger } from 'pino'

/** Codes of Redis that do not pass by themselves: somebody has to mend its settings, or the rights of our user there. */
const LASTING = /\b(?:NOPERM|OOM|MISCONF|NOAUTH|WRONGPASS)\b|ACL failure|executing the script can't/
const EVENT = 'refusal'
/** What is refused is said once in so long, by its code. */
const QUIET_MS = 60_000

/** Tells whoever follows the client that Redis has refused a command for good. Other errors are none of these. */
export function noteRefusal(client: Pick<EventEmitter, 'emit'>, error: Error): void {
  if (LASTING.test(error.message)) client.emit(EVENT, error)
}

/** Says in the log what Redis refuses for good: callers are only told that it does not work at the moment. */
export function logRefusals(client: Pick<EventEmitter, 'on'>, log: Pick<Logger, 'error'>): void {
  const saidAt = new Map<string, number>()
  client.on(EVENT, (error: Error) => {
    const [code = ''] = LASTING.exec(error.message) ?? []
    const now = performance.now()
    if (now - (saidAt.get(code) ?? Number.NEGATIVE_INFINITY) < QUIET_MS) return
    saidAt.set(code, now)
    log.error({ err: error }, 'Redis refuses what is needed: see its memory, and the rights of its user')
  })
}
