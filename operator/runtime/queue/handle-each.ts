import type { Logger } from 'pino'
import type { KeyedQueue } from './queue.ts'

/**
 * Handles the keys of a queue one after the other until the queue is closed. `handle` returns the milliseconds until the
 * key is due again, or undefined if a change starts it. A key whose `handle` rejects is retried, and only its first
 * failure is a warning; `what` is the message of the log line.
 */
export async function handleEach(
  queue: KeyedQueue,
  handle: (key: string) => Promise<number | undefined>,
  log: Logger,
  what: string,
): Promise<void> {
  for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
    try {
      const next = await handle(key)
      queue.forget(key)
      if (next !== undefined) queue.addAfter(key, next)
    } catch (error) {
      const level = queue.failures(key) === 0 ? 'warn' : 'debug'
      log[level]({ key, error: String(error) }, what)
      queue.retry(key)
    } finally {
      queue.done(key)
    }
  }
}
