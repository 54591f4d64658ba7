import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { Hit } from '../hits.ts'
import { VectorFile } from './vector-file.ts'

/** The memory of a vector besides its numbers: its key, and its place in the cache. */
const ENTRY_BYTES = 256

/** Caches vectors of texts by the digests of model and text, in memory and, if there is a folder, in a file. */
export class Vectors {
  readonly #mostBytes: number
  readonly #kept: LRUCache<string, Float32Array>
  readonly #file: VectorFile

  constructor(mostBytes: number, directory: string, log: Logger) {
    this.#mostBytes = mostBytes
    this.#kept = new LRUCache({ maxSize: mostBytes, sizeCalculation: ({ byteLength }) => byteLength + ENTRY_BYTES })
    this.#file = new VectorFile(directory, log)
  }

  /** Returns the number of vectors of this dimension that fit in memory. */
  roomFor(numbers: number): number {
    return Math.floor(this.#mostBytes / (numbers * Float32Array.BYTES_PER_ELEMENT + ENTRY_BYTES))
  }

  /** Returns the vector in memory; its length is 0 for a text that has none. */
  get(key: string): Float32Array | undefined {
    return this.#kept.get(key)
  }

  /** Loads a vector of this dimension from the file to memory; false if there is none. */
  load(key: string, numbers: number): boolean {
    const vector = this.#file.get(key)
    if (vector?.length !== numbers) return false
    this.#kept.set(key, vector)
    return true
  }

  add(entries: readonly (readonly [key: string, vector: Float32Array])[]): void {
    for (const [key, vector] of entries) this.#kept.set(key, vector)
    this.#file.add(entries)
  }

  /** Records, for the life of this process, that a text has no vector. */
  addNone(key: string): void {
    this.#kept.set(key, NONE)
  }

  get status() {
    return {
      vectors: this.#kept.size,
      vectorBytes: this.#kept.calculatedSize,
      kept: this.#file.isOpen ? ('disk' as const) : ('memory' as const),
    }
  }

  close(): void {
    this.#kept.clear()
    this.#file.close()
  }
}

const NONE = new Float32Array()

/**
 * Returns the tools closest to a vector, at most `most` and none beyond a distance (0 to 2). Scores go from 1 for the
 * closest to 0 for the furthest found: models differ in what is close. Vectors of another dimension are skipped.
 */
export function closest(
  to: Float32Array,
  vectors: readonly (Float32Array | undefined)[],
  { most, furthest }: { readonly most: number; readonly furthest: number },
): readonly Hit[] {
  const near: { readonly tool: number; readonly distance: number }[] = []
  for (const [tool, vector] of vectors.entries()) {
    if (vector?.length !== to.length) continue
    const distance = 1 - product(to, vector)
    if (distance <= furthest) near.push({ tool, distance })
  }
  near.sort((a, b) => a.distance - b.distance || a.tool - b.tool)
  const found = near.slice(0, most)
  const [first, last] = [found[0]?.distance ?? 0, found.at(-1)?.distance ?? 0]
  return found.map(({ tool, distance }) => ({ tool, score: first === last ? 1 : (last - distance) / (last - first) }))
}

function product(one: Float32Array, other: Float32Array): number {
  let sum = 0
  for (let at = 0; at < one.length; at++) sum += (one[at] as number) * (other[at] as number)
  return sum
}
