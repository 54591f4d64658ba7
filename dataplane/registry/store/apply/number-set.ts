const BLOCK_BITS = 4096

/**
 * A set of ids (0 to 2^31 - 1) that are mostly consecutive. It takes one bit for each; a `Set` takes about 40 bytes.
 */
export class NumberSet {
  readonly #blocks = new Map<number, Uint8Array>()
  size = 0

  add(id: number): void {
    const blockIndex = Math.floor(id / BLOCK_BITS)
    let block = this.#blocks.get(blockIndex)
    if (block === undefined) this.#blocks.set(blockIndex, (block = new Uint8Array(BLOCK_BITS / 8)))
    const bit = id % BLOCK_BITS
    const byte = block[bit >> 3] as number
    const changed = byte | (1 << (bit & 7))
    if (changed === byte) return
    block[bit >> 3] = changed
    this.size++
  }

  has(id: number): boolean {
    const byte = this.#blocks.get(Math.floor(id / BLOCK_BITS))?.[(id % BLOCK_BITS) >> 3] ?? 0
    return (byte & (1 << (id & 7))) !== 0
  }

  *chunks(most: number): Generator<number[]> {
    let chunk: number[] = []
    for (const [blockIndex, block] of this.#blocks)
      for (let bit = 0; bit < BLOCK_BITS; bit++) {
        if (((block[bit >> 3] as number) & (1 << (bit & 7))) === 0) continue
        chunk.push(blockIndex * BLOCK_BITS + bit)
        if (chunk.length < most) continue
        yield chunk
        chunk = []
      }
    if (chunk.length > 0) yield chunk
  }
}
