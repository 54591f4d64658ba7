import { HttpMethod, RequestContext } from '@kubernetes/client-node'
import { errors, request as httpRequest } from 'undici'
import type { KubernetesObject } from '../../model/view.ts'
import { readWithin } from '../read-within.ts'
import type { PooledKubeConfig } from './kube-config.ts'
import { buildPath, formatApiVersion, type Resource } from './resource.ts'

/** An error answer of the API server, with its Status object if it sent one. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly reason: string
  /** The seconds that the server asks to wait, from Retry-After or the Status. */
  readonly retryAfter: number | undefined

  constructor(status: number, reason: string, message: string, retryAfter?: number) {
    super(message)
    this.status = status
    this.reason = reason
    this.retryAfter = retryAfter
  }
}

/** Tells whether an error is an answer of the API server with one of these statuses. */
export const hasStatus = (error: unknown, ...statuses: readonly number[]): boolean =>
  error instanceof ApiError && statuses.includes(error.status)

export const isNotFound = (error: unknown): boolean => hasStatus(error, 404)

/** Returns undefined in place of an error answer with one of these statuses. */
export async function ignoreStatus<T>(answer: Promise<T>, ...statuses: readonly number[]): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (hasStatus(error, ...statuses)) return undefined
    throw error
  }
}

/** Tells whether an error says that the resource version is too old to list or watch from. */
export const isGone = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 410 || error.reason === 'Expired' || error.reason === 'Gone')

type Query = Readonly<Record<string, string | number | boolean | undefined>>

interface RequestOptions {
  readonly query?: Query
  readonly body?: unknown
  readonly contentType?: string
  readonly accept?: string
  readonly signal?: AbortSignal
  /** Milliseconds until the answer's headers, and between two pieces of its body. */
  readonly timeout?: number
  /** The largest answer in bytes. It is set where a pod answers and not the API server. Absent: any. */
  readonly mostBytes?: number
}

interface JsonPatch {
  readonly fieldManager: string
  readonly operations: readonly {
    readonly op: 'add' | 'replace' | 'test'
    readonly path: string
    readonly value: unknown
  }[]
  readonly subresource?: string
}

interface ListOf<T> {
  metadata: { resourceVersion: string; continue?: string }
  items: T[] | null
}

const TIMEOUT_MS = 30_000
const UNAUTHORIZED = 401
const APPLY = 'application/apply-patch+yaml'

/** The Kubernetes API over pooled connections: any resource, by path. Throws an ApiError for each error answer. */
export class ApiServer {
  /** Called for each answer with the verb, its HTTP status or `error`, and the seconds to its head. */
  onAnswer: ((verb: string, code: string, seconds: number) => void) | undefined
  readonly #config: PooledKubeConfig
  readonly #headers: Readonly<Record<string, string>>

  /** With `token`, requests carry this bearer token in place of the credential of `config`. */
  constructor(config: PooledKubeConfig, userAgent: string, token?: string) {
    this.#config = config
    this.#headers = { 'user-agent': userAgent, ...(token !== undefined && { authorization: `Bearer ${token}` }) }
  }

  /** Sends one request and returns the undecoded answer, whatever its status. */
  async open(method: keyof typeof HttpMethod, path: string, options: RequestOptions = {}) {
    const started = performance.now()
    const verb = options.query?.['watch'] === true ? 'WATCH' : method
    const reportAnswer = (code: string) => this.onAnswer?.(verb, code, (performance.now() - started) / 1000)
    try {
      const response = await this.#send(method, path, options)
      reportAnswer(String(response.statusCode))
      return response
    } catch (error) {
      reportAnswer('error')
      throw error
    }
  }

  async #send(method: keyof typeof HttpMethod, path: string, options: RequestOptions) {
    const cluster = this.#config.getCurrentCluster()
    if (!cluster) throw new Error('the kubeconfig names no cluster')
    const url = new URL(cluster.server.replace(/\/$/, '') + path)
    for (const [name, value] of Object.entries(options.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value))
    }
    const context = new RequestContext(url.href, HttpMethod[method])
    await this.#config.applySecurityAuthentication(context)
    const timeout = options.timeout ?? TIMEOUT_MS
    const dispatcher = context.getDispatcher()
    const response = await httpRequest(url, {
      method,
      headers: {
        ...context.getHeaders(),
        accept: options.accept ?? 'application/json',
        ...this.#headers,
        ...(options.body === undefined ? {} : { 'content-type': options.contentType ?? 'application/json' }),
      },
      body: options.body === undefined ? null : JSON.stringify(options.body),
      headersTimeout: timeout,
      bodyTimeout: timeout,
      ...(dispatcher ? { dispatcher } : {}),
      ...(options.signal ? { signal: options.signal } : {}),
    })
    if (response.statusCode === UNAUTHORIZED) this.#config.forgetCredentials()
    return response
  }

  /** Sends one request and returns the decoded JSON of a success. */
  async request<T>(method: keyof typeof HttpMethod, path: string, options: RequestOptions = {}): Promise<T> {
    const response = await this.open(method, path, options)
    const { mostBytes } = options
    const text = await (mostBytes === undefined ? response.body.text() : readWithin(mostBytes, response.body))
    if (response.statusCode >= 200 && response.statusCode < 300) return JSON.parse(text) as T
    throw parseError(response.statusCode, text, response.headers['retry-after'])
  }

  get<T = KubernetesObject>(resource: Resource, namespace: string | undefined, name: string): Promise<T> {
    return this.request<T>('GET', buildPath(resource, namespace, name))
  }

  /** Reads one page of a list. To get the next one, pass `continue` of the last page's metadata. */
  list<T = KubernetesObject>(
    resource: Resource,
    namespace: string | undefined,
    options: RequestOptions,
  ): Promise<ListOf<T>> {
    return this.request<ListOf<T>>('GET', buildPath(resource, namespace), options)
  }

  create<T = KubernetesObject>(resource: Resource, namespace: string | undefined, object: unknown): Promise<T> {
    return this.request<T>('POST', buildPath(resource, namespace), { body: object })
  }

  /** Replaces an object. A `resourceVersion` in it makes the write conditional (409 Conflict). */
  replace<T = KubernetesObject>(resource: Resource, namespace: string, name: string, object: unknown): Promise<T> {
    return this.request<T>('PUT', buildPath(resource, namespace, name), { body: object })
  }

  /** Sends a server-side apply under a field manager, which takes over fields of others. */
  apply<T = KubernetesObject>(resource: Resource, object: KubernetesObject, fieldManager: string): Promise<T> {
    const { namespace, name } = object.metadata
    return this.request<T>('PATCH', buildPath(resource, namespace, name), {
      query: { fieldManager, force: true },
      contentType: APPLY,
      body: object,
    })
  }

  mergePatch<T = KubernetesObject>(resource: Resource, namespace: string, name: string, patch: unknown): Promise<T> {
    return this.request<T>('PATCH', buildPath(resource, namespace, name), {
      contentType: 'application/merge-patch+json',
      body: patch,
    })
  }

  /** Sends a JSON patch (RFC 6902) under a field manager. A failed `test` is 422. */
  jsonPatch<T = KubernetesObject>(resource: Resource, namespace: string, name: string, patch: JsonPatch): Promise<T> {
    return this.request<T>('PATCH', buildPath(resource, namespace, name, patch.subresource), {
      query: { fieldManager: patch.fieldManager },
      contentType: 'application/json-patch+json',
      body: patch.operations,
    })
  }

  /** Deletes one object if it still has this uid. An object that is gone already is a success. */
  remove(resource: Resource, namespace: string, name: string, uid?: string): Promise<void> {
    return this.#delete(buildPath(resource, namespace, name), 'Background', uid)
  }

  /** Does the same, but keeps what belongs to the object. */
  removeAlone(resource: Resource, namespace: string, name: string, uid?: string): Promise<void> {
    return this.#delete(buildPath(resource, namespace, name), 'Orphan', uid)
  }

  async #delete(path: string, propagationPolicy: 'Background' | 'Orphan', uid: string | undefined): Promise<void> {
    const body = { propagationPolicy, ...(uid ? { preconditions: { uid } } : {}) }
    // If the precondition fails, another object has the name now.
    await ignoreStatus(this.request('DELETE', path, { body }), 404, ...(uid ? [409] : []))
  }
}

function parseStatus(text: string): { reason?: string; message?: string; details?: { retryAfterSeconds?: number } } {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    // The answer has no Status object, and the HTTP status says enough.
    return {}
  }
}

function parseError(status: number, text: string, retryAfterHeader: string | string[] | undefined): ApiError {
  const body = parseStatus(text)
  const header = Number(Array.isArray(retryAfterHeader) ? retryAfterHeader[0] : retryAfterHeader)
  const retryAfter = body.details?.retryAfterSeconds ?? (header > 0 ? header : undefined)
  return new ApiError(status, body.reason ?? `HTTP ${status}`, body.message ?? text.slice(0, 500), retryAfter)
}

const PAGE = 500

interface Which {
  readonly namespace?: string | undefined
  readonly labelSelector?: string
  readonly fieldSelector?: string
}

/** Lists every object of a kind by pages. Throws an ApiError, 404 if the cluster has no such kind. */
export async function listAll(
  api: ApiServer,
  resource: Resource,
  { namespace, labelSelector, fieldSelector }: Which = {},
): Promise<KubernetesObject[]> {
  const objects: KubernetesObject[] = []
  let token: string | undefined
  do {
    const { metadata, items } = await api.list(resource, namespace, {
      query: { limit: PAGE, continue: token, labelSelector, fieldSelector },
    })
    for (const item of items ?? [])
      objects.push({ ...item, apiVersion: formatApiVersion(resource), kind: resource.kind })
    token = metadata.continue
  } while (token)
  return objects
}

/** Lists like `listAll`, but returns none if the cluster has no such kind. */
export const listServed = async (api: ApiServer, resource: Resource, which: Which): Promise<KubernetesObject[]> =>
  (await ignoreStatus(listAll(api, resource, which), 404)) ?? []

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
  if (response.statusCode !== 200) throw parseWatchError(response.statusCode, await response.body.text())
  response.body.setEncoding('utf8')
  // A large event comes in many chunks, which are looked at once each.
  let parts: string[] = []
  for await (const chunk of endWhenIdle(response.body as AsyncIterable<string>)) {
    const lines = chunk.split('\n')
    for (const line of lines.slice(0, -1)) {
      parts.push(line)
      const event = parts.join('')
      parts = []
      if (event !== '') yield parseEvent<T>(event)
    }
    parts.push(lines.at(-1) as string)
  }
}

const parseWatchError = (statusCode: number, text: string): ApiError =>
  new ApiError(statusCode, parseStatus(text).reason ?? `HTTP ${statusCode}`, text.slice(0, 500))

function parseEvent<T>(line: string): WatchEvent<T> {
  const event = JSON.parse(line) as { type: string; object: unknown }
  if (event.type !== 'ERROR') return event as WatchEvent<T>
  const status = event.object as { code?: number; reason?: string; message?: string }
  throw new ApiError(status.code ?? 500, status.reason ?? 'Unknown', status.message ?? 'the watch failed')
}

async function* endWhenIdle(body: AsyncIterable<string>): AsyncGenerator<string> {
  try {
    yield* body
  } catch (error) {
    if (!(error instanceof errors.BodyTimeoutError)) throw error
  }
}
