import { isObject } from '../../../../crds/settings/json.ts'

/** A watch of resources, until it is stopped. */
export interface ResourceWatch {
  /**
   * Resolves when the backend has answered all subscriptions. Never rejects; while the backend is unreachable it may
   * stay pending.
   */
  readonly active: Promise<unknown>
  /** The `SharedWatch` that it is part of, if any. */
  readonly by?: object
  stop(): void
}

/** The longest time that a client waits until its subscriptions are active. */
const ACTIVE_MS = 2_000

/** Waits until the watches are active, so that every later change is reported. Never rejects. */
export async function untilActive(watches: readonly ResourceWatch[]): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ACTIVE_MS)
  await Promise.race([Promise.all(watches.map(({ active }) => active)), late])
  clearTimeout(timer)
}

/** Returns the URI of the changed resource that a message reports; undefined for other messages. */
export function updatedUri(message: unknown): string | undefined {
  if (!isObject(message) || message['method'] !== 'notifications/resources/updated') return undefined
  const { params } = message
  return isObject(params) && typeof params['uri'] === 'string' ? params['uri'] : undefined
}
