import { errors } from 'undici'
import { ApiError, type ApiServer } from './api-server.ts'
import { buildPath, type Resource } from './resource.ts'

interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  readonly object: T
}

interface WatchOptions {
  readonly namespace?: string
  readonly resourceVersion: string
  readonly labelSelector?: string
  readonly accept?: string
  /** Seconds after which the server ends the watch. */
  readonly timeoutSeconds: number
  /** Milliseconds without a byte, bookmarks included, after which the connection counts as dead. */
  readonly idleLimit: number
  readonly signal: AbortSignal
}

/**
 * Runs one watch with bookmarks (Kubernetes API concepts, "Efficient detection of changes"). Ends when the server ends
 * it, and after `idleLimit` without a byte, which is normal on a quiet cluster. Throws an ApiError for an error status
 * or an ERROR event (410 Expired), any other Error for a broken connection.
 */
export async function* watch<T>(
  api: ApiServer,
  resource: Resource,
  options: WatchOptions,
): AsyncGenerator<WatchEvent<T>> {
  const response = await api.open('GET', buildPath(resource, options.namespace), {
    query: {
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: options.resourceVersion,
      timeoutSeconds: options.timeoutSeconds,
      labelSelector: options.labelSelector,
    },
    signal: options.signal,
    timeout: options.idleLimit,
    ...(options.accept ? { accept: options.accept } : {}),
  })
  if (response.statusCode !== 200) throw parseError(response.statusCode, await response.body.text())
  response.body.setEncoding('utf8')
  let rest = ''
  for await (const chunk of untilIdle(response.body as AsyncIterable<string>)) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() as string
    for (const line of lines) {
      if (line === '') continue
      yield parseEvent<T>(line)
    }
  }
}

function parseError(statusCode: number, text: string): ApiError {
  let reason = `HTTP ${statusCode}`
  try {
    reason = JSON.parse(text).reason ?? reason
  } catch {
    // The answer has no Status object, and the HTTP status says enough.
  }
  return new ApiError(statusCode, reason, text.slice(0, 500))
}

function parseEvent<T>(line: string): WatchEvent<T> {
  const event = JSON.parse(line) as { type: string; object: unknown }
  if (event.type !== 'ERROR') return event as WatchEvent<T>
  const status = event.object as { code?: number; reason?: string; message?: string }
  throw new ApiError(status.code ?? 500, status.reason ?? 'Unknown', status.message ?? 'the watch failed')
}

async function* untilIdle(body: AsyncIterable<string>): AsyncGenerator<string> {
  try {
    yield* body
  } catch (error) {
    if (!(error instanceof errors.BodyTimeoutError)) throw error
  }
}
