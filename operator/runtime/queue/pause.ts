import { setTimeout as delay } from 'node:timers/promises'

/** Resolves after the given milliseconds, or as soon as the signal is aborted. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  delay(ms, undefined, { signal }).catch(() => undefined)
