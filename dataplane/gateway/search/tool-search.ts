import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { OptimizerConfig } from '../../config/gateway.ts'
import type { ToolSearchStatus } from '../../config/status.ts'
import { Embeddings } from './embedding/embeddings.ts'
import { fuse, type Hit, relative } from './hits.ts'
import type { ToolIndex } from './tool-index.ts'

export interface ToolSearchOptions {
  readonly log: Logger
  /** Where vectors are kept on disk. */
  readonly stateDirectory: string
  /** Memory of the process. */
  readonly memoryBytes?: number | undefined
  /** A fault in what no request waits for. */
  onFault(error: unknown, what: string): void
}

const MIB = 1024 * 1024
const USUAL_MEMORY = 512 * MIB
const DEFAULT_MOST = 8
const DEFAULT_RATIO = '0.5'
const DEFAULT_FURTHEST = '1.0'
/** What is found in each of two ways, before both are made one. */
const CANDIDATES = 100

/**
 * Finds tools in lists of them. A list is that which callers see whom policies judge alike, and who have the same
 * backends: an index belongs to a list, whoever sees it, and not to a session. It is built when a list is first searched,
 * and forgotten when there is no room or nobody searches that list any more.
 */
export class ToolSearch {
  readonly #indexes: LRUCache<string, ToolIndex>
  readonly #mostBytes: number
  readonly #building = new Map<string, Promise<ToolIndex>>()
  readonly #digests = new WeakMap<Buffer, string>()
  /** Indexes are built one after another. */
  #last: Promise<unknown> = Promise.resolve()
  readonly #options: ToolSearchOptions
  #config: OptimizerConfig = {}
  #embeddings: Embeddings | undefined
  /** What is configured for them, as text. */
  #embeddingKey = ''
  #searches = 0
  #hybrid = 0
  #wordsAlone = 0

  constructor(options: ToolSearchOptions) {
    this.#options = options
    this.#mostBytes = Math.max((options.memoryBytes ?? USUAL_MEMORY) / 16, 16 * MIB)
    this.#indexes = new LRUCache({ maxSize: this.#mostBytes, dispose: (index) => index.close() })
  }

  /** Puts settings in force; their file paths are relative to `directory`. Vectors live on while the service is the same. */
  apply(config: OptimizerConfig, directory: string): void {
    this.#config = config
    const key = JSON.stringify([directory, Object.entries(config).filter(([name]) => name.startsWith('embedding'))])
    if (key === this.#embeddingKey) return
    this.#embeddingKey = key
    this.#closeEmbeddings()
    const { embeddingService: service } = config
    if (service === undefined) return
    const { stateDirectory, log } = this.#options
    this.#embeddings = new Embeddings({ service, config, directory, stateDirectory, mostBytes: this.#mostBytes, log })
  }

  /** The most tools that a search gives. */
  get most(): number {
    return this.#config.maxToolsToReturn ?? DEFAULT_MOST
  }

  /**
   * JSON texts of the tools in a list that fit a query best, the best first. `list`: the result of `tools/list`; `caller`: any
   * value that is the caller's own.
   */
  async find(list: Buffer, query: string, most: number, caller?: unknown): Promise<readonly string[]> {
    this.#searches++
    const index = await this.#indexOf(list)
    return (await this.#ranked(index, query, most, caller)).map((tool) => index.tools[tool] as string)
  }

  /** The best of those that are found by their words, and by what they mean. */
  async #ranked(index: ToolIndex, query: string, most: number, caller: unknown): Promise<readonly number[]> {
    const { hybridSearchSemanticRatio = DEFAULT_RATIO, semanticDistanceThreshold = DEFAULT_FURTHEST } = this.#config
    const weight = Number(hybridSearchSemanticRatio)
    const words = index.find(query, CANDIDATES)
    if (this.#embeddings === undefined || weight === 0 || query.trim() === '') return numbersOf(words, most)
    const furthest = Number(semanticDistanceThreshold)
    const meant = await this.#embeddings.closest(index, query, { most: CANDIDATES, furthest }, caller)
    if (meant === undefined) {
      this.#wordsAlone++
      return numbersOf(words, most)
    }
    this.#hybrid++
    const byWords = { hits: relative(words), weight: 1 - weight }
    return fuse([byWords, { hits: meant, weight }], most)
  }

  async #indexOf(list: Buffer): Promise<ToolIndex> {
    const digest = this.#digestOf(list)
    for (;;) {
      const index = this.#indexes.get(digest) ?? (await (this.#building.get(digest) ?? this.#build(digest, list)))
      // Another one may have taken its room while it was waited for.
      if (!index.isClosed) return index
    }
  }

  #build(digest: string, list: Buffer): Promise<ToolIndex> {
    const building = this.#last
      .then(() => import('./tool-index.ts'))
      .then(({ ToolIndex }) => ToolIndex.build(list))
      .then((index) => {
        // One that is larger than all the room has it to itself.
        this.#indexes.set(digest, index, { size: Math.min(index.bytes, this.#mostBytes) })
        return index
      })
      .finally(() => this.#building.delete(digest))
    this.#last = building.catch(() => {
      // Whoever searches is told.
    })
    this.#building.set(digest, building)
    return building
  }

  #digestOf(list: Buffer): string {
    let digest = this.#digests.get(list)
    if (digest === undefined) this.#digests.set(list, (digest = hash('sha256', list, 'base64url')))
    return digest
  }

  get status(): ToolSearchStatus {
    const { calculatedSize, size } = this.#indexes
    return { searches: this.#searches, indexes: size, indexBytes: calculatedSize, embeddings: this.#embeddingStatus() }
  }

  /** What people should know of, though it serves. */
  get problem(): string | undefined {
    return this.#embeddings?.problem
  }

  #embeddingStatus(): ToolSearchStatus['embeddings'] {
    if (this.#embeddings === undefined) return null
    const { status, problem = null } = this.#embeddings
    return { ...status, hybridSearches: this.#hybrid, wordsAlone: this.#wordsAlone, problem }
  }

  #closeEmbeddings(): void {
    this.#embeddings
      ?.close()
      .catch((error) => this.#options.onFault(error, 'closing connections to the embedding service'))
    this.#embeddings = undefined
  }

  close(): void {
    this.#closeEmbeddings()
    this.#indexes.clear()
  }
}

const numbersOf = (hits: readonly Hit[], most: number): readonly number[] => hits.slice(0, most).map(({ tool }) => tool)
