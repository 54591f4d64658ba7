import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { ToolSearchStatus } from '../../config/status.ts'
import type { ToolIndex } from './tool-index.ts'

export type OptimizerConfig = NonNullable<GatewayConfig['optimizer']>

const MIB = 1024 * 1024
const USUAL_MEMORY = 512 * MIB
const DEFAULT_MOST = 8

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
  #config: OptimizerConfig
  #searches = 0

  constructor(config: OptimizerConfig, memoryBytes = USUAL_MEMORY) {
    this.#config = config
    this.#mostBytes = Math.max(memoryBytes / 16, 16 * MIB)
    this.#indexes = new LRUCache({ maxSize: this.#mostBytes, dispose: (index) => index.close() })
  }

  /** Goes on with other settings. */
  apply(config: OptimizerConfig): void {
    this.#config = config
  }

  /** The most tools that a search gives. */
  get most(): number {
    return this.#config.maxToolsToReturn ?? DEFAULT_MOST
  }

  /** JSON texts of the tools in a list that fit a query best, the best first. `list`: the result of `tools/list`. */
  async find(list: Buffer, query: string, most: number): Promise<readonly string[]> {
    this.#searches++
    const index = await this.#indexOf(list)
    return index.find(query, most).map(({ tool }) => index.tools[tool] as string)
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
    return { searches: this.#searches, indexes: this.#indexes.size, indexBytes: this.#indexes.calculatedSize }
  }

  close(): void {
    this.#indexes.clear()
  }
}
