interface Closable {
  close(): Promise<void>
}

/**
 * Resources that several owners share, by a key of everything that they are made from. A resource is closed when its last
 * owner releases it.
 */
export class RefCounted<P extends Closable> {
  readonly #resources = new Map<string, { readonly resource: P; owners: number }>()

  /** The resource of this key, made where there is none yet. Each `acquire` is paired with one `release`. */
  acquire(key: string, make: () => P): P {
    const entry = this.#resources.get(key) ?? { resource: make(), owners: 0 }
    entry.owners++
    this.#resources.set(key, entry)
    return entry.resource
  }

  async release(key: string): Promise<void> {
    const entry = this.#resources.get(key)
    if (entry === undefined || --entry.owners > 0) return
    this.#resources.delete(key)
    await entry.resource.close()
  }
}
