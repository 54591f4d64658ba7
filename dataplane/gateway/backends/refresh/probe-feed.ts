import type { Backend } from '../backend/backend.ts'
import { connectionFailure } from '../connection/failure.ts'
import { type Feed, Schedule } from './schedule.ts'

const RETRY_MS = 2_000

interface ProbeOptions {
  readonly onChange: () => void
  /** Gets the gateway a credential of its own, where there is one of that kind. */
  readonly authorize: () => Promise<unknown>
}

/**
 * Watches over a backend that shows each caller something else: whether it lives, and no more. No caller's credential is
 * sent for that. One that asks for a credential lives.
 */
export function probeFeed(backend: Backend, { onChange, authorize }: ProbeOptions): Feed {
  async function ask(): Promise<void> {
    await authorize().catch((error) => {
      // Without a credential the probe still shows whether the backend lives.
      backend.log.debug({ reason: String(error) }, 'no credential of the gateway’s own')
    })
    await backend.probe()
  }

  /** What it shows is each caller's own: nothing of it is shown to all. */
  function lives(ms: number): void {
    backend.health.listed(ms)
    if (backend.tools !== undefined) return
    backend.tools = []
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
