interface Part {
  close(): Promise<void>
}

/** Parts that several owners use at a time, each by a key that says all that it is made of. The last owner's going closes it. */
export class KeptParts<P extends Part> {
  readonly #parts = new Map<string, { readonly part: P; owners: number }>()

  /** The part of this key, made where there is none yet. Whoever takes it gives it back once. */
  take(key: string, make: () => P): P {
    const kept = this.#parts.get(key) ?? { part: make(), owners: 0 }
    kept.owners++
    this.#parts.set(key, kept)
    return kept.part
  }

  async giveBack(key: string): Promise<void> {
    const kept = this.#parts.get(key)
    if (kept === undefined || --kept.owners > 0) return
    this.#parts.delete(key)
    await kept.part.close()
  }
}
