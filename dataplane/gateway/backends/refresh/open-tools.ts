import type { Backend } from '../backend/backend.ts'
import { listTools } from './list-tools.ts'

/**
 * Makes the function that gives the tools which a backend shows without a credential, for callers who have none yet. It
 * is asked for them at the interval of its policy at most, once for all who need them meanwhile; undefined where it
 * shows nothing to the gateway itself.
 */
export function openTools(backend: Backend): () => Promise<Backend['tools']> {
  let asked: Promise<Backend['tools']> | undefined
  let askAt = 0
  return function knownTools() {
    const now = performance.now()
    if (asked === undefined || now >= askAt) {
      askAt = now + backend.health.policy.intervalMs
      asked = listTools(backend).then(
        ({ tools }) => tools,
        () => undefined,
      )
    }
    return asked
  }
}
