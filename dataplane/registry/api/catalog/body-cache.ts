export interface ResponseBody {
  readonly bytes: Buffer
  readonly gzip: boolean
  /** The registry's revision that it shows; undefined if it shows no version, since versions carry the revision. */
  readonly revision: string | undefined
}

/** The limit for all bodies together, including their keys. */
const MOST_BYTES = 32 * 1024 * 1024
/** An eviction stops at this size: finding the oldest body again and again would cost more each time. */
const LEFT_BYTES = MOST_BYTES - MOST_BYTES / 16
/** A larger body would evict too many others. */
const LARGEST_BYTES = MOST_BYTES / 8
/** The overhead of an entry beside its bytes. */
const OVERHEAD_BYTES = 300

/** The keys of one half. Both halves together are about as many as there are cached bodies. */
const HALF = 4_096

/** Caches bodies by their query and evicts the least recently used first. */
export class BodyCache {
  readonly #bodies = new Map<string, ResponseBody>()
  #bytes = 0

  get(key: string): ResponseBody | undefined {
    const body = this.#bodies.get(key)
    if (body === undefined) return undefined
    this.#bodies.delete(key)
    this.#bodies.set(key, body)
    return body
  }

  keep(key: string, body: ResponseBody): void {
    if (body.bytes.length > LARGEST_BYTES || this.#bodies.has(key)) return
    this.#bodies.set(key, { ...body, bytes: alone(body.bytes) })
    this.#bytes += measure(key, body)
    if (this.#bytes <= MOST_BYTES) return
    for (const [oldest, its] of this.#bodies) {
      this.#bodies.delete(oldest)
      this.#bytes -= measure(oldest, its)
      if (this.#bytes <= LEFT_BYTES) return
    }
  }
}

/** Copies the bytes into memory of their own: a slice would keep the larger buffer alive. */
function alone(bytes: Buffer): Buffer {
  if (bytes.length === bytes.buffer.byteLength) return bytes
  const own = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(own)
  return own
}

const measure = (key: string, { bytes }: ResponseBody) => bytes.length + key.length + OVERHEAD_BYTES

/** Remembers some thousand keys that were requested last. When the newer half is full, the older half is dropped. */
export class RecentKeys {
  #newer = new Set<string>()
  #older = new Set<string>()

  /** Adds a key and tells whether it was there before. */
  isRepeated(key: string): boolean {
    if (this.#newer.has(key)) return true
    if (this.#newer.size === HALF) {
      this.#older = this.#newer
      this.#newer = new Set()
    }
    this.#newer.add(key)
    return this.#older.has(key)
  }
}
