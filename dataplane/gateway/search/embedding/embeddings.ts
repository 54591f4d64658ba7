import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { OptimizerConfig } from '../../../config/gateway.ts'
import { backoffDelay } from '../../../retry/backoff.ts'
import { isLate } from '../../limits/is-late.ts'
import type { Hit } from '../hits.ts'
import type { ToolIndex } from '../tool-index.ts'
import { EmbeddingError, EmbeddingService, MOST_TEXTS } from './embedding-service.ts'
import { findClosest, Vectors } from './vectors.ts'

export interface EmbeddingsOptions {
  readonly service: string
  readonly config: OptimizerConfig
  readonly directory: string
  readonly stateDirectory: string
  readonly mostBytes: number
  readonly log: Logger
}

/** The most searches that run or wait, of all callers together. Further ones use words alone. */
const MOST_WAITING = 192
/** The milliseconds of comparing vectors after which requests get a turn. */
const TURN_MS = 5
/** The pauses, in milliseconds, after failures of the service. */
const AWAY = { first: 1_000, longest: 60_000 }

/** The number of searches of one caller that run at a time. The caller's further searches wait for these. */
const RUNNING = 2

interface Own {
  held: number
  running: number
  readonly waiting: (() => void)[]
}

/** Finds tools by meaning, using the vectors that a service makes of texts. */
export class Embeddings {
  readonly #service: EmbeddingService
  readonly #vectors: Vectors
  readonly #log: Logger
  /** The prefix of the digests of texts: each model has its own vectors. */
  readonly #model: string
  readonly #filling = new Map<ToolIndex, Promise<void>>()
  /** Settles after the last list: lists get their vectors one after another. */
  #last: Promise<void> = Promise.resolve()
  readonly #queue = new FairQueue(MOST_WAITING)
  #requests = 0
  #failures = 0
  /** The failures since its last answer. */
  #inARow = 0
  #retryAt = 0
  /** The problem that prevents the search by meaning; undefined if there is none. */
  problem: string | undefined
  #isClosed = false

  constructor({ service, config, directory, stateDirectory, mostBytes, log }: EmbeddingsOptions) {
    this.#service = new EmbeddingService(service, config, directory)
    this.#vectors = new Vectors(mostBytes, stateDirectory, log)
    this.#log = log
    this.#model = hash('sha256', config.embeddingModel ?? service, 'base64url')
  }

  /**
   * Returns the tools closest to a query's meaning, at most `most` and none beyond a cosine distance. Undefined if the
   * service can't answer in time. `caller` is unique to the caller.
   */
  findClosest(
    index: ToolIndex,
    query: string,
    bounds: { readonly most: number; readonly furthest: number },
    caller: unknown,
  ): Promise<readonly Hit[] | undefined> {
    return this.#queue.run(caller, () => this.#findClosest(index, query, bounds))
  }

  async #findClosest(
    index: ToolIndex,
    query: string,
    bounds: { readonly most: number; readonly furthest: number },
  ): Promise<readonly Hit[] | undefined> {
    const started = performance.now()
    try {
      const [meant] = await this.#embed([query.toWellFormed()])
      const numbers = (meant as Float32Array).length
      await isLate(this.#filled(index, numbers), this.#service.timeoutMs - (performance.now() - started))
      const keys = index.digests.slice(0, this.#vectors.roomFor(numbers))
      return findClosest(
        meant as Float32Array,
        keys.map((digest) => this.#vectors.get(this.#model + digest)),
        bounds,
      )
    } catch (error) {
      if (!(error instanceof EmbeddingError)) throw error
      return undefined
    }
  }

  /** Settles when each tool of an index has its vector of this dimension, or can't have one now; never rejects. */
  #filled(index: ToolIndex, numbers: number): Promise<void> {
    const filling = this.#filling.get(index)
    if (filling !== undefined) return filling
    if (this.#missing(index, numbers).next().done) return Promise.resolve()
    this.#last = this.#last
      .then(() => this.#fill(index, numbers))
      .catch((error) => {
        if (!(error instanceof EmbeddingError)) this.#log.error({ err: error }, 'vectors of tools can’t be computed')
      })
      .finally(() => this.#filling.delete(index))
    this.#filling.set(index, this.#last)
    return this.#last
  }

  async #fill(index: ToolIndex, numbers: number): Promise<void> {
    let since = performance.now()
    let batch = new Map<string, string>()
    for (const tool of this.#missing(index, numbers)) {
      if (performance.now() - since > TURN_MS) {
        await setImmediate()
        since = performance.now()
      }
      const key = this.#model + index.digests[tool]
      const text = index.meaningOf(tool)
      if (text === '') this.#vectors.addNone(key)
      else if (!this.#vectors.load(key, numbers)) batch.set(key, text)
      if (batch.size === MOST_TEXTS) {
        await this.#make(batch, numbers)
        batch = new Map()
      }
    }
    if (batch.size > 0) await this.#make(batch, numbers)
  }

  /** Yields the tools of an index that have no vector of this dimension in memory, up to the memory limit. */
  *#missing({ digests }: ToolIndex, numbers: number): Generator<number, void> {
    const most = Math.min(digests.length, this.#vectors.roomFor(numbers))
    for (let tool = 0; tool < most; tool++) {
      const length = this.#vectors.get(this.#model + digests[tool])?.length
      if (length !== numbers && length !== 0) yield tool
    }
  }

  /** Makes vectors of texts by their keys. A text that the service refuses does not affect the others. */
  async #make(texts: ReadonlyMap<string, string>, numbers: number): Promise<void> {
    if (this.#isClosed) return
    const keys = [...texts.keys()]
    try {
      const vectors = await this.#embed([...texts.values()], numbers)
      this.#vectors.add(keys.map((key, place) => [key, vectors[place] as Float32Array]))
    } catch (error) {
      if (!(error instanceof EmbeddingError && error.isOfTexts)) throw error
      if (texts.size === 1) this.#vectors.addNone(keys[0] as string)
      else for (const [key, text] of texts) await this.#make(new Map([[key, text]]), numbers)
    }
  }

  /** Asks the service, unless it has just failed; `numbers` is the required dimension of each vector. */
  async #embed(texts: readonly string[], numbers?: number): Promise<readonly Float32Array[]> {
    if (this.#isClosed || performance.now() < this.#retryAt) throw new EmbeddingError('is away')
    this.#requests++
    try {
      const vectors = await this.#service.embed(texts)
      if (numbers !== undefined && vectors[0]?.length !== numbers)
        throw new EmbeddingError('returned vectors of another length than before')
      this.#answered()
      return vectors
    } catch (error) {
      if (error instanceof EmbeddingError) this.#failed(error)
      throw error
    }
  }

  #answered(): void {
    if (this.#inARow > 0) this.#log.info('the embedding service answers again')
    this.#inARow = 0
    this.problem = undefined
  }

  /** Records a failure. A refusal of texts is none: callers choose their queries, and backends their tools. */
  #failed(error: EmbeddingError): void {
    if (this.#isClosed) return
    this.#failures++
    this.problem = `the embedding service ${error.message}`
    if (error.isOfTexts || performance.now() < this.#retryAt) return
    if (this.#inARow === 0)
      this.#log.warn({ err: error }, 'the embedding service can’t be used; tools are found by their words alone')
    this.#retryAt = performance.now() + backoffDelay(this.#inARow++, AWAY)
  }

  get status() {
    return { requests: this.#requests, failures: this.#failures, ...this.#vectors.status }
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.#vectors.close()
    return this.#service.close()
  }
}

/** Limits the work of a slow service for each caller: one holds at most half of the free places. */
class FairQueue {
  readonly #most: number
  readonly #callers = new Map<unknown, Own>()
  #held = 0

  /** @param most how much runs and waits at a time, of all callers together */
  constructor(most: number) {
    this.#most = most
  }

  /** Runs the work when it is the caller's turn; undefined if the caller holds too many places. */
  async run<T>(caller: unknown, work: () => Promise<T>): Promise<T | undefined> {
    const own = this.#callers.get(caller) ?? { held: 0, running: 0, waiting: [] }
    if (own.held + 1 > (this.#most - this.#held) / 2) return undefined
    this.#callers.set(caller, own)
    own.held++
    this.#held++
    try {
      if (own.running < RUNNING) own.running++
      else await new Promise<void>((resolve) => own.waiting.push(resolve))
      return await work()
    } finally {
      const next = own.waiting.shift()
      if (next === undefined) own.running--
      else next()
      this.#held--
      if (--own.held === 0) this.#callers.delete(caller)
    }
  }
}
