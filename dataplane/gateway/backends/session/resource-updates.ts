import { isObject } from '../../../../crds/shared/json.ts'

/** What goes on until it is stopped. */
export interface ResourceWatch {
  /** Settles when all of it is heard, but for what is refused; never rejects. May stay open where the backend is away. */
  readonly heard: Promise<unknown>
  /** What watches it, where others share that. */
  readonly by?: object
  stop(): void
}

/** A client waits no longer for a backend to hear of its resources. In milliseconds. */
const HEARD_MS = 2_000

/** Waits until what is watched is heard: what changes from then on is told. Never rejects. */
export async function untilHeard(watches: readonly ResourceWatch[]): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, HEARD_MS)
  await Promise.race([Promise.all(watches.map(({ heard }) => heard)), late])
  clearTimeout(timer)
}

/** The URI that a message says has changed. */
export function updatedUri(message: unknown): string | undefined {
  if (!isObject(message) || message['method'] !== 'notifications/resources/updated') return undefined
  const { params } = message
  return isObject(params) && typeof params['uri'] === 'string' ? params['uri'] : undefined
}
