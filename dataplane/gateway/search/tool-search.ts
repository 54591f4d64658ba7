import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { memoize } from '../../../crds/settings/json.ts'
import type { OptimizerConfig } from '../../config/gateway.ts'
import type { ToolSearchStatus } from '../../config/status.ts'
import { cacheBytes } from '../limits/memory-limits.ts'
import { Embeddings } from './embedding/embeddings.ts'
import { fuse, type Hit, relative } from './hits.ts'
import type { ToolIndex } from './tool-index.ts'

interface ToolSearchOptions {
  readonly log: Logger
  readonly stateDirectory: string
  readonly memoryBytes?: number | undefined
  /** Reports an error in background work. */
  onFault(error: unknown, what: string): void
}

const DEFAULT_MOST = 8
const DEFAULT_RATIO = '0.5'
const DEFAULT_FURTHEST = '1.0'
/** The most hits of each of the two searches, before they are combined. */
const CANDIDATES = 100

/**
 * Finds tools in lists. Callers with the same list share its index, built at the first search, and evicted when memory
 * is short.
 */
export class ToolSearch {
  readonly #indexes: LRUCache<string, ToolIndex>
  readonly #mostBytes: number
  readonly #building = new Map<string, Promise<ToolIndex>>()
  /** Settles after the last build: indexes are built one after another. */
  #last: Promise<unknown> = Promise.resolve()
  readonly #options: ToolSearchOptions
  #config: OptimizerConfig = {}
  #embeddings: Embeddings | undefined
  /** The configuration of embeddings, as text. */
  #embeddingKey = ''
  #searches = 0
  #hybrid = 0
  #wordsAlone = 0

  constructor(options: ToolSearchOptions) {
    this.#options = options
    this.#mostBytes = cacheBytes(options.memoryBytes)
    this.#indexes = new LRUCache({ maxSize: this.#mostBytes, dispose: (index) => index.close() })
  }

  /** Applies settings. Vectors are kept while the service stays the same. */
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

  get most(): number {
    return this.#config.maxToolsToReturn ?? DEFAULT_MOST
  }

  /**
   * Returns the JSON texts of the tools in a list (`tools/list`) that fit a query best. `caller` is unique to the
   * caller.
   */
  async find(list: Buffer, query: string, most: number, caller?: unknown): Promise<readonly string[]> {
    this.#searches++
    const index = await this.#openIndex(list)
    return (await this.#ranked(index, query, most, caller)).map((tool) => index.tools[tool] as string)
  }

  /** Ranks the tools found by words and by meaning. */
  async #ranked(index: ToolIndex, query: string, most: number, caller: unknown): Promise<readonly number[]> {
    const { hybridSearchSemanticRatio = DEFAULT_RATIO, semanticDistanceThreshold = DEFAULT_FURTHEST } = this.#config
    const weight = Number(hybridSearchSemanticRatio)
    const words = index.find(query, CANDIDATES)
    if (this.#embeddings === undefined || weight === 0 || query.trim() === '') return listNumbers(words, most)
    const furthest = Number(semanticDistanceThreshold)
    const meant = await this.#embeddings.findClosest(index, query, { most: CANDIDATES, furthest }, caller)
    if (meant === undefined) {
      this.#wordsAlone++
      return listNumbers(words, most)
    }
    this.#hybrid++
    const byWords = { hits: relative(words), weight: 1 - weight }
    return fuse([byWords, { hits: meant, weight }], most)
  }

  async #openIndex(list: Buffer): Promise<ToolIndex> {
    const digest = computeDigest(list)
    for (;;) {
      const index = this.#indexes.get(digest) ?? (await (this.#building.get(digest) ?? this.#build(digest, list)))
      // Another index may have evicted it meanwhile.
      if (!index.isClosed) return index
    }
  }

  #build(digest: string, list: Buffer): Promise<ToolIndex> {
    const building = this.#last
      .then(() => import('./tool-index.ts'))
      .then(({ ToolIndex }) => ToolIndex.build(list))
      .then((index) => {
        // An index larger than the limit takes the whole cache.
        this.#indexes.set(digest, index, { size: Math.min(index.bytes, this.#mostBytes) })
        return index
      })
      .finally(() => this.#building.delete(digest))
    this.#last = building.catch(() => {
      // The search reports the error.
    })
    this.#building.set(digest, building)
    return building
  }

  get status(): ToolSearchStatus {
    const { calculatedSize, size } = this.#indexes
    const { status, problem = null } = this.#embeddings ?? {}
    const embeddings = status && { ...status, hybridSearches: this.#hybrid, wordsAlone: this.#wordsAlone, problem }
    return { searches: this.#searches, indexes: size, indexBytes: calculatedSize, embeddings: embeddings ?? null }
  }

  /** A problem for operators in a search that still works. */
  get problem(): string | undefined {
    return this.#embeddings?.problem
  }

  #closeEmbeddings(): void {
    this.#embeddings
      ?.close()
      .catch((error) => this.#options.onFault(error, 'connections to the embedding service could not be closed'))
    this.#embeddings = undefined
  }

  close(): void {
    this.#closeEmbeddings()
    this.#indexes.clear()
  }
}

const computeDigest = memoize((list: Buffer) => hash('sha256', list, 'base64url'))

const listNumbers = (hits: readonly Hit[], most: number): readonly number[] =>
  hits.slice(0, most).map(({ tool }) => tool)

/** The tools that a gateway with tool search lists in place of all others. */

export const FIND_TOOL = 'find_tool'
export const CALL_TOOL = 'call_tool'

/** Returns the result of `tools/list`, as JSON text; `most` is the most tools that a search returns. */
export const metaTools = (most: number): string => JSON.stringify({ tools: [findTool(most), callTool] })

const findTool = (most: number) => ({
  name: FIND_TOOL,
  description:
    'Finds tools by what they do. All that this server can do is found here: search, and in other words once more, before you say that something can’t be done. Gives the definitions of the tools that fit best; call one of them with call_tool.',
  inputSchema: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'What the tool is to do, in a few words.' },
      limit: { type: 'integer', minimum: 1, maximum: most, description: 'Most tools that are given.' },
    },
    required: ['query'],
  },
  annotations: { title: 'Find tools', readOnlyHint: true, openWorldHint: false },
})

const callTool = {
  name: CALL_TOOL,
  description: 'Calls a tool that find_tool has found.',
  inputSchema: {
    type: 'object',
    properties: {
      name: { type: 'string', description: 'Name of the tool, as find_tool gives it.' },
      arguments: { type: 'object', description: 'Arguments of the tool, by its own inputSchema.' },
    },
    required: ['name'],
  },
  annotations: { title: 'Call a tool' },
}
