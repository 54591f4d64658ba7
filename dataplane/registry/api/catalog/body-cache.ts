/** The body of an answer, ready to be written. */
export interface ResponseBody {
  readonly bytes: Buffer
  readonly gzip: boolean
  /** The registry's revision that it shows; undefined where it shows no version, which would carry it. */
  readonly revision: string | undefined
}

/** All bodies together; what they are kept by counts too. */
const MOST_BYTES = 32 * 1024 * 1024
/** When there are too many, so many are left: to find the oldest again and again would cost more each time. */
const LEFT_BYTES = MOST_BYTES - MOST_BYTES / 16
/** One that is larger would drive out too many others. */
const LARGEST_BYTES = MOST_BYTES / 8
/** What an entry costs beside its bytes. */
const OVERHEAD_BYTES = 300

/** Keys of one half; both together are about as many as there are bodies kept. */
const HALF = 4_096

/** Bodies by what was asked, the least recently used going first. */
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

  /** Keeps a body that is not kept yet. */
  keep(key: string, body: ResponseBody): void {
    if (body.bytes.length > LARGEST_BYTES || this.#bodies.has(key)) return
    this.#bodies.set(key, { ...body, bytes: alone(body.bytes) })
    this.#bytes += sizeOf(key, body)
    if (this.#bytes <= MOST_BYTES) return
    for (const [oldest, its] of this.#bodies) {
      this.#bodies.delete(oldest)
      this.#bytes -= sizeOf(oldest, its)
      if (this.#bytes <= LEFT_BYTES) return
    }
  }
}

/** In memory of its own: a part of a larger piece would hold all of that. */
function alone(bytes: Buffer): Buffer {
  if (bytes.length === bytes.buffer.byteLength) return bytes
  const own = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(own)
  return own
}

const sizeOf = (key: string, { bytes }: ResponseBody) => bytes.length + key.length + OVERHEAD_BYTES

/** Some thousand keys that were requested last; the older half of them goes when the newer is full. */
export class RecentKeys {
  #newer = new Set<string>()
  #older = new Set<string>()

  /** Adds a key; whether it was there before. */
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
