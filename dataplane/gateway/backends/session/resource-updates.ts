import { isObject } from '../../../../crds/settings/json.ts'

/** A watch of resources, until it is stopped. */
export interface ResourceWatch {
  /** Settles when the backend has taken all subscriptions that it takes; never rejects. May stay pending where the backend is away. */
  readonly active: Promise<unknown>
  /** The `SharedWatch` that it is part of, where it is part of one. */
  readonly by?: object
  stop(): void
}

/** How long a client waits at most until its subscriptions are active. */
const ACTIVE_MS = 2_000

/** Waits until the watches are active: what changes from then on is reported. Never rejects. */
export async function untilActive(watches: readonly ResourceWatch[]): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ACTIVE_MS)
  await Promise.race([Promise.all(watches.map(({ active }) => active)), late])
  clearTimeout(timer)
}

/** The URI that a message says has changed. */
export function updatedUri(message: unknown): string | undefined {
  if (!isObject(message) || message['method'] !== 'notifications/resources/updated') return undefined
  const { params } = message
  return isObject(params) && typeof params['uri'] === 'string' ? params['uri'] : undefined
}
