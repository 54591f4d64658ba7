/** Keys of one half; both together are about as many as there are bodies kept. */
const HALF = 4_096

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
