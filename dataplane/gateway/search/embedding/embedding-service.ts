import { resolve } from 'node:path'
import { parseTimer } from '../../../../crds/settings/duration.ts'
import { isObject } from '../../../../crds/settings/json.ts'
import { isLoopback } from '../../../config/check/url.ts'
import type { OptimizerConfig } from '../../../config/gateway.ts'
import { type ReadSecretFile, secretFile } from '../../../config/secret-file.ts'
import { createGuardedFetch, type GuardedFetch } from '../../../net/guarded-fetch.ts'

interface Protocol {
  /** Returns the URL of requests; `service` is the configured URL. */
  url(service: string): string
  body(texts: readonly string[], model: string | undefined): object
  /** Returns the vector of each text, in their order; undefined if the answer is invalid. */
  vectorsIn(answer: unknown, count: number): readonly unknown[] | undefined
}

/** text-embeddings-inference, `POST /embed` (https://huggingface.github.io/text-embeddings-inference). */
const tei: Protocol = {
  url: (service) => buildEndpoint(service, '/embed', (path) => `${path}/embed`),
  body: (texts) => ({ inputs: texts, truncate: true }),
  vectorsIn: (answer, count) => (Array.isArray(answer) && answer.length === count ? answer : undefined),
}

/** `POST /v1/embeddings` (https://platform.openai.com/docs/api-reference/embeddings/create). */
const openai: Protocol = {
  url: (service) =>
    buildEndpoint(service, '/embeddings', (path) => `${path}${path.endsWith('/v1') ? '' : '/v1'}/embeddings`),
  body: (texts, model) => ({ model, input: texts, encoding_format: 'float' }),
  vectorsIn(answer, count) {
    const data = isObject(answer) ? answer['data'] : undefined
    return Array.isArray(data) && data.length === count ? sortByIndex(data) : undefined
  },
}

const protocols: Readonly<Record<'tei' | 'openai', Protocol>> = { tei, openai }

/** The service returned no vectors. Its message quotes nothing of the request or answer. */
export class EmbeddingError extends Error {
  override readonly name = 'EmbeddingError'
  /** True if the service refuses these texts: it may accept others. */
  readonly isOfTexts: boolean

  constructor(message: string, { isOfTexts = false, cause }: { isOfTexts?: boolean; cause?: unknown } = {}) {
    super(message, { cause })
    this.isOfTexts = isOfTexts
  }
}

/**
 * The most texts of a request: services accept at least these (text-embeddings-inference: `--max-client-batch-size`).
 */
export const MOST_TEXTS = 32
/** The most numbers of a vector: twice those of the largest models in use. */
const MOST_NUMBERS = 8_192
/** The largest answer: the vectors of a request, at 25 characters a number, and the text around them. */
const MAX_BYTES = 8 * 1024 * 1024
const CONNECTIONS = 4
const DEFAULT_TIMEOUT = '30s'
/** Bad request, too large, can't be processed: statuses that concern the texts. */
const OF_TEXTS: ReadonlySet<number> = new Set([400, 413, 422])

/** A service that converts texts to vectors. File paths of the configuration are relative to `directory`. */
export class EmbeddingService {
  readonly timeoutMs: number
  readonly #protocol: Protocol
  readonly #url: string
  readonly #model: string | undefined
  readonly #headers: Readonly<Record<string, string>>
  readonly #readKey: ReadSecretFile | undefined
  readonly #fetch: GuardedFetch

  constructor(service: string, config: OptimizerConfig, directory: string) {
    const { embeddingProvider = 'tei', embeddingHeaders = {}, embeddingApiKeyFile: keyFile } = config
    this.timeoutMs = parseTimer(config.embeddingServiceTimeout ?? DEFAULT_TIMEOUT)
    this.#protocol = protocols[embeddingProvider]
    this.#url = this.#protocol.url(service)
    this.#model = config.embeddingModel
    this.#headers = { ...embeddingHeaders, 'content-type': 'application/json' }
    this.#readKey = keyFile === undefined ? undefined : secretFile(resolve(directory, keyFile))
    this.#fetch = createGuardedFetch({
      allowPrivateIP: config.embeddingAllowPrivateIP,
      allowLoopback: isLoopback(new URL(service)),
      maxBytes: MAX_BYTES,
      timeoutMs: this.timeoutMs,
      connections: CONNECTIONS,
    })
  }

  /** Returns a vector of unit length for each text (at most `MOST_TEXTS`). Rejects with an EmbeddingError. */
  async embed(texts: readonly string[]): Promise<readonly Float32Array[]> {
    const { status, text } = await this.#post(JSON.stringify(this.#protocol.body(texts, this.#model)))
    if (status !== 200) throw new EmbeddingError(`answered HTTP ${status}`, { isOfTexts: OF_TEXTS.has(status) })
    const vectors = this.#protocol.vectorsIn(parseOrUndefined(text), texts.length)?.map(unitVector)
    const numbers = vectors?.[0]?.length
    if (vectors === undefined || numbers === undefined) throw new EmbeddingError('returned no vectors')
    for (const vector of vectors)
      if (vector?.length !== numbers)
        throw new EmbeddingError('returned vectors that are not lists of numbers, or of unequal length')
    return vectors as Float32Array[]
  }

  async #post(body: string) {
    try {
      const authorization = this.#readKey && { authorization: `Bearer ${this.#readKey()}` }
      return await this.#fetch(this.#url, { ...this.#headers, ...authorization }, body)
    } catch (cause) {
      const { code, name } = cause as NodeJS.ErrnoException
      throw new EmbeddingError(`can’t be asked (${code ?? name})`, { cause })
    }
  }

  close(): Promise<void> {
    return this.#fetch.close()
  }
}

function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Scales a vector to unit length; undefined if the value is no vector. */
function unitVector(given: unknown): Float32Array | undefined {
  if (!Array.isArray(given) || given.length > MOST_NUMBERS) return undefined
  let squares = 0
  for (const number of given) {
    if (typeof number !== 'number') return undefined
    squares += number * number
  }
  const length = Math.sqrt(squares)
  return length > 0 && Number.isFinite(length) ? Float32Array.from(given, (number) => number / length) : undefined
}

/** Returns a URL with the path of an endpoint, which it may have already; its query stays. */
function buildEndpoint(service: string, end: string, completed: (path: string) => string): string {
  const url = new URL(service)
  const path = url.pathname.endsWith('/') ? url.pathname.slice(0, -1) : url.pathname
  url.pathname = path.endsWith(end) ? path : completed(path)
  return url.href
}

/** Sorts the items by their `index`. An index that is invalid or duplicate leaves another text without a vector. */
function sortByIndex(data: readonly unknown[]): readonly unknown[] {
  const vectors = new Array<unknown>(data.length)
  for (const [place, item] of data.entries()) {
    if (!isObject(item)) continue
    const { index = place, embedding } = item
    if (typeof index === 'number' && index in data) vectors[index] = embedding
  }
  return vectors
}
