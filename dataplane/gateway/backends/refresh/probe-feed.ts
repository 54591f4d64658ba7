import type { Backend } from '../backend/backend.ts'
import { connectionFailure } from '../connection/failure.ts'
import { type Feed, Schedule } from './schedule.ts'

const RETRY_MS = 2_000

interface ProbeOptions {
  readonly onChange: () => void
  /** Obtains the gateway's own credential, if the strategy has one. */
  readonly authorize: () => Promise<unknown>
}

/**
 * Watches whether a backend is alive that shows each caller different lists. It keeps no lists and sends no caller's
 * credential. A backend that requires a credential is alive.
 */
export function probeFeed(backend: Backend, { onChange, authorize }: ProbeOptions): Feed {
  async function ask(): Promise<void> {
    await authorize().catch((error) => {
      // Even without a credential the probe shows whether the backend is alive.
      backend.log.debug({ reason: String(error) }, 'the gateway has no credential of its own for the backend')
    })
    await backend.probe()
  }

  /** Records that the backend is alive. Each caller has separate lists, so the shared ones stay empty. */
  function lives(ms: number): void {
    backend.health.listed(ms)
    if (backend.said.tools !== undefined) return
    backend.said.tools = []
    onChange()
  }

  return new Schedule(backend, async () => {
    const start = performance.now()
    try {
      await ask()
    } catch (error) {
      const failure = connectionFailure(error)
      if (failure.status === 401 || failure.status === 403) lives(performance.now() - start)
      else backend.health.failed(failure)
      return Math.min(RETRY_MS, backend.health.policy.intervalMs)
    }
    lives(performance.now() - start)
    return backend.health.policy.intervalMs
  })
}
