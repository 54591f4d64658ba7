import { hash, randomBytes } from 'node:crypto'
import type { PinningConfig } from '../../config/gateway.ts'

const PIN_KINDS = ['instructions', 'tools', 'prompts', 'resources', 'resourceTemplates', 'pages'] as const
export type PinKind = (typeof PIN_KINDS)[number]
type NamedKind = Exclude<PinKind, 'instructions'>

/** The reason why a definition is not approved: it has pins with other digests, or no pins. */
export type Reason = 'changed' | 'unpinned'

/** The current pins of one backend. */
export class Pins {
  /** True if definitions that are not approved are withheld; false if they are only reported. */
  readonly isEnforced: boolean
  readonly #instructions: readonly string[]
  readonly #tables: ReadonlyMap<NamedKind, PinTable>
  readonly #unlisted: NonNullable<NonNullable<PinningConfig['pins']>['unlisted']>

  constructor({ mode, pins = {} }: PinningConfig) {
    const { instructions = [], unlisted = {}, ...named } = pins
    this.isEnforced = mode === 'enforce'
    this.#instructions = instructions
    this.#unlisted = unlisted
    this.#tables = new Map(Object.entries(named).map(([kind, digests]) => [kind as NamedKind, new PinTable(digests)]))
  }

  /** Returns the reason why a definition with this digest is not approved; undefined if it is. */
  reasonAgainst(kind: PinKind, name: string, digest: string | undefined): Reason | undefined {
    const isKnown = kind === 'instructions' ? this.#instructions.length > 0 : this.has(kind, name)
    if (!isKnown) return this.unlisted(kind) === 'withhold' ? 'unpinned' : undefined
    return digest !== undefined && this.#isPinned(kind, name, digest) ? undefined : 'changed'
  }

  /** Returns how definitions without a pin are treated. */
  unlisted(kind: PinKind): 'withhold' | 'allow' | 'bare' {
    return this.#unlisted[kind] ?? 'withhold'
  }

  #isPinned(kind: PinKind, name: string, digest: string): boolean {
    if (kind === 'instructions') return this.#instructions.includes(digest)
    return this.#tables.get(kind)?.isPinned(name, digest) === true
  }

  has(kind: NamedKind, name: string): boolean {
    return this.#tables.get(kind)?.has(name) === true
  }

  names(kind: NamedKind): Iterable<string> {
    return this.#tables.get(kind)?.names() ?? []
  }
}

/** The bytes of a digest, without its prefix. */
const DIGEST_BYTES = 32
const PREFIX = 'sha256:'
const SEED = randomBytes(16)
// biome-ignore lint/suspicious/noControlCharactersInRegex: what takes one byte
const LATIN1 = /^[\u0000-\u00ff]*$/

/**
 * The digests of many definitions by name, packed into bytes. As strings in a map a pin with one digest takes 350
 * bytes, here about 70.
 */
export class PinTable {
  readonly #names: Buffer
  readonly #encoding: 'latin1' | 'utf16le'
  readonly #nameEnds: Uint32Array
  readonly #digests: Buffer
  /** For each name, the number of digests up to its last one. */
  readonly #digestEnds: Uint32Array
  /** A hash table of the names. A slot holds a name's number, counted from 1; collisions use the next free slot. */
  readonly #slots: Uint32Array

  /** @param pins the digests by name, each in the form of `DIGEST_PATTERN` */
  constructor(pins: Readonly<Record<string, readonly string[]>>) {
    const names = Object.keys(pins)
    this.#encoding = names.every((name) => LATIN1.test(name)) ? 'latin1' : 'utf16le'
    const text = names.join('')
    this.#names = Buffer.alloc(Buffer.byteLength(text, this.#encoding), text, this.#encoding)
    this.#nameEnds = new Uint32Array(names.length)
    this.#digestEnds = new Uint32Array(names.length)
    const digests = Object.values(pins).flat()
    this.#digests = Buffer.alloc(digests.length * DIGEST_BYTES)
    for (const [index, digest] of digests.entries())
      this.#digests.write(digest.slice(PREFIX.length), index * DIGEST_BYTES, 'hex')
    this.#slots = new Uint32Array(2 ** Math.ceil(Math.log2(names.length * 1.5 + 1)))
    let nameEnd = 0
    let digestEnd = 0
    for (const [index, name] of names.entries()) {
      this.#nameEnds[index] = nameEnd += name.length
      this.#digestEnds[index] = digestEnd += pins[name]?.length ?? 0
      this.#slots[this.#findSlot(name)] = index + 1
    }
  }

  has(name: string): boolean {
    return this.#indexOf(name) !== -1
  }

  isPinned(name: string, digest: string): boolean {
    const index = this.#indexOf(name)
    if (index === -1) return false
    const end = this.#digestEnds[index] as number
    for (let at = this.#digestEnds[index - 1] ?? 0; at < end; at++)
      if (digest === PREFIX + this.#digests.toString('hex', at * DIGEST_BYTES, (at + 1) * DIGEST_BYTES)) return true
    return false
  }

  *names(): Iterable<string> {
    for (let index = 0; index < this.#nameEnds.length; index++) yield this.#nameAt(index)
  }

  #indexOf(name: string): number {
    return (this.#slots[this.#findSlot(name)] as number) - 1
  }

  /** Returns the slot of a name, or the free slot where it would be. */
  #findSlot(name: string): number {
    const last = this.#slots.length - 1
    let slot = hashName(name) & last
    for (;;) {
      const number = this.#slots[slot] as number
      if (number === 0 || this.#isAt(number - 1, name)) return slot
      slot = (slot + 1) & last
    }
  }

  #isAt(index: number, name: string): boolean {
    const length = (this.#nameEnds[index] as number) - (this.#nameEnds[index - 1] ?? 0)
    return length === name.length && this.#nameAt(index) === name
  }

  #nameAt(index: number): string {
    const width = this.#encoding === 'latin1' ? 1 : 2
    const start = this.#nameEnds[index - 1] ?? 0
    return this.#names.toString(this.#encoding, start * width, (this.#nameEnds[index] as number) * width)
  }
}

/** Returns a seeded 32-bit hash. Authors of pins don't know the seed, so they can't choose names that collide. */
const hashName = (name: string): number =>
  hash('sha256', Buffer.concat([SEED, Buffer.from(name, 'utf16le')]), 'buffer').readUInt32LE()
