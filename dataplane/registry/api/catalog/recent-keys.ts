/** Keys of one half; both together are about as many as there are bodies kept. */
const HALF = 4_096

/** What was asked for lately: some thousand keys, the older half of which goes when the newer is full. */
export class RecentKeys {
  #newer = new Set<string>()
  #older = new Set<string>()

  /** Whether this was asked for before, and now it was. */
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
