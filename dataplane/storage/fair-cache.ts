/** The holder of an entry, from its widest group on: the networks of an address, or a user. */
export type Holder = readonly string[]

interface FairCacheOptions {
  readonly most: number
  /** The size of a holder, and of each group above it, besides the entries; absent: 0. */
  readonly holderSize?: number
  /** Holders of at most this size count as equal. Of these, the least recently used makes room first. */
  readonly even?: number
  /** Returns milliseconds since 1970. */
  readonly now?: () => number
}

interface EntryOptions {
  readonly size: number
  readonly ttlMs: number
  /** Absent: the holder of the entry that it replaces, or an unknown holder. */
  readonly holder?: Holder | undefined
}

/** The entry that makes room next. */
interface Leaver {
  readonly key: string
  readonly addedAt: number
  /** True if its holder has more than the holder that needs the room would have with the new entry. */
  readonly isHeldByMore: boolean
}

interface Entry<V> extends Queued {
  readonly key: string
  readonly value: V
  readonly size: number
  readonly addedAt: number
  readonly until: number
  readonly part: Part<V>
}

interface Queued {
  before?: this | undefined
  after?: this | undefined
}

/** Making room drops expired entries at most this often. */
const PURGE_AGAIN_MS = 1_000
const EVEN_SIZE = 1_024
const MOST_EVEN_SHARE = 1 / 64
/** The number of levels from a size to its double. */
const LEVELS_PER_DOUBLING = 4
/** The holder of entries without a known holder. */
export const NOBODY: Holder = ['']

/**
 * A cache of bounded size for entries of many holders. If there is no room, the least recently used entry of the
 * largest holder is removed.
 */
export class FairCache<V> {
  readonly most: number
  readonly #entries = new Map<string, Entry<V>>()
  readonly #all: Part<V>
  readonly #now: () => number
  #purgedAt = 0

  constructor({ most, holderSize = 0, even = EVEN_SIZE, now = Date.now }: FairCacheOptions) {
    this.most = most
    this.#now = now
    this.#all = new Part('', undefined, { holderSize, even: Math.max(1, Math.min(even, most * MOST_EVEN_SHARE)) })
  }

  get size(): number {
    return this.#entries.size
  }

  get held(): number {
    return this.#all.held
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    if (entry.until <= this.#now()) {
      this.delete(key)
      return undefined
    }
    entry.part.touch(entry)
    return entry.value
  }

  /** Returns the remaining milliseconds of an entry; 0 if there is none. */
  leftOf(key: string): number {
    return Math.max(0, (this.#entries.get(key)?.until ?? 0) - this.#now())
  }

  holderOf(key: string): Holder | undefined {
    return this.#entries.get(key)?.part.path
  }

  heldBy(holder: Holder): number {
    return this.#all.find(holder)?.held ?? 0
  }

  /** Keeps an entry, and removes others if there is no room. An entry larger than the cache is not kept. */
  set(key: string, value: V, { size, ttlMs, holder }: EntryOptions): void {
    const now = this.#now()
    const before = this.#entries.get(key)
    const path = holder ?? before?.part.path ?? NOBODY
    this.delete(key)
    if (this.needed(path, size) > this.most) return
    while (!this.hasRoom(this.needed(path, size))) {
      const leaver = this.leaver(path, size)
      if (leaver === undefined) return
      this.delete(leaver.key)
    }
    const part = this.#all.open(path)
    const addedAt = before !== undefined && before.until > now ? before.addedAt : now
    const entry: Entry<V> = { key, value, size, addedAt, until: now + ttlMs, part }
    this.#entries.set(key, entry)
    part.add(entry)
  }

  /** Returns the size of an entry, with that of its holder if the holder is new. */
  needed(holder: Holder, size: number): number {
    return size + this.#all.unopened(holder)
  }

  delete(key: string): boolean {
    const entry = this.#entries.get(key)
    if (entry === undefined) return false
    this.#entries.delete(key)
    entry.part.remove(entry)
    return true
  }

  /** Tells whether there is room for this size. Drops expired entries if there is not. */
  hasRoom(size: number): boolean {
    if (this.held + size <= this.most) return true
    this.purgeLately()
    return this.held + size <= this.most
  }

  /** Finds the entry that is removed first if a holder needs so much room. */
  leaver(holder: Holder, size: number): Leaver | undefined {
    return this.#all.leaver(holder, size)
  }

  *entries(): Generator<readonly [string, V]> {
    const now = this.#now()
    for (const [key, { value, until }] of this.#entries) if (until > now) yield [key, value]
  }

  purgeStale(): void {
    const now = this.#now()
    this.#purgedAt = now
    for (const [key, { until }] of this.#entries) if (until <= now) this.delete(key)
  }

  /** Drops expired entries, unless that was done a moment ago: a caller without room asks repeatedly. */
  purgeLately(): void {
    if (this.#now() - this.#purgedAt >= PURGE_AGAIN_MS) this.purgeStale()
  }

  clear(): void {
    for (const key of [...this.#entries.keys()]) this.delete(key)
  }
}

/** A queue whose items are removed in constant time. A Set would step over all items that were removed before. */
class Queue<T extends Queued> {
  first: T | undefined
  last: T | undefined

  push(item: T): void {
    item.before = this.last
    item.after = undefined
    if (this.last === undefined) this.first = item
    else this.last.after = item
    this.last = item
  }

  remove(item: T): void {
    if (item.before === undefined) this.first = item.after
    else item.before.after = item.after
    if (item.after === undefined) this.last = item.before
    else item.after.before = item.before
  }
}

interface Group<V> {
  readonly parts: Map<string, Part<V>>
  /** The parts by level of size. In each level the least recently used comes first. */
  readonly levels: Map<number, Queue<Part<V>>>
}

interface PartOptions {
  readonly holderSize: number
  readonly even: number
}

/** A holder, or a group of holders. */
class Part<V> implements Queued {
  before?: this
  after?: this
  readonly name: string
  readonly parent: Part<V> | undefined
  readonly options: PartOptions
  /** Both are created on first use, since there are many holders. */
  group: Group<V> | undefined
  entries: Queue<Entry<V>> | undefined
  held = 0

  constructor(name: string, parent: Part<V> | undefined, options: PartOptions) {
    this.name = name
    this.parent = parent
    this.options = options
  }

  /** The size besides the entries. The part for entries without a known holder has none. */
  get own(): number {
    return this.name === '' ? 0 : this.options.holderSize
  }

  get path(): Holder {
    return this.parent === undefined ? [] : [...this.parent.path, this.name]
  }

  open(holder: Holder): Part<V> {
    return holder.reduce<Part<V>>((at, name) => {
      const { parts } = (at.group ??= { parts: new Map(), levels: new Map() })
      let part = parts.get(name)
      if (part === undefined) {
        parts.set(name, (part = new Part(name, at, at.options)))
        part.enter(at.group)
        part.grow(part.own)
      }
      return part
    }, this)
  }

  /** Returns the size of the parts that would have to be created for a holder. */
  unopened(holder: Holder): number {
    const at = holder.findIndex((_, index) => this.find(holder.slice(0, index + 1)) === undefined)
    return at < 0 ? 0 : holder.slice(at).filter((name) => name !== '').length * this.options.holderSize
  }

  find(holder: Holder): Part<V> | undefined {
    return holder.reduce<Part<V> | undefined>((at, name) => at?.group?.parts.get(name), this)
  }

  add(entry: Entry<V>): void {
    this.entries ??= new Queue()
    this.entries.push(entry)
    this.grow(entry.size)
  }

  remove(entry: Entry<V>): void {
    this.entries?.remove(entry)
    this.grow(-entry.size)
    this.closeEmpty()
  }

  touch(entry: Entry<V>): void {
    this.entries?.remove(entry)
    this.entries?.push(entry)
    this.grow(0)
  }

  /** Finds the entry that is removed first if a holder below this part needs so much room. */
  leaver(holder: Holder, size: number): Leaver | undefined {
    const { parts, levels } = this.group ?? {}
    const top = Math.max(...(levels?.keys() ?? []))
    const part = levels?.get(top)?.first
    if (part === undefined) {
      const { key, addedAt } = this.entries?.first ?? {}
      return key === undefined || addedAt === undefined ? undefined : { key, addedAt, isHeldByMore: false }
    }
    const [name = '', ...rest] = holder
    const isOwn = part.name === name
    const found = part.leaver(isOwn ? rest : [], size)
    const isMore = !isOwn && this.findLevel((parts?.get(name)?.held ?? 0) + size) < top
    return found && { ...found, isHeldByMore: isMore || (isOwn && found.isHeldByMore) }
  }

  findLevel(held: number): number {
    const { even } = this.options
    return held <= even ? 0 : 1 + Math.floor(LEVELS_PER_DOUBLING * Math.log2(held / even))
  }

  /** Changes the size. A part that does not shrink counts as used. */
  grow(size: number): void {
    const group = this.parent?.group
    const isMoved = size >= 0 || this.findLevel(this.held) !== this.findLevel(this.held + size)
    if (group !== undefined && isMoved) this.leave(group)
    this.held += size
    if (group !== undefined && isMoved) this.enter(group)
    this.parent?.grow(size)
  }

  closeEmpty(): void {
    const { parent } = this
    const isEmpty = this.entries?.first === undefined && (this.group?.parts.size ?? 0) === 0
    if (parent?.group === undefined || !isEmpty) return
    this.grow(-this.own)
    this.leave(parent.group)
    parent.group.parts.delete(this.name)
    parent.closeEmpty()
  }

  leave({ levels }: Group<V>): void {
    const level = this.findLevel(this.held)
    const queue = levels.get(level)
    queue?.remove(this)
    if (queue?.first === undefined) levels.delete(level)
  }

  enter({ levels }: Group<V>): void {
    const level = this.findLevel(this.held)
    let queue = levels.get(level)
    if (queue === undefined) levels.set(level, (queue = new Queue()))
    queue.push(this)
  }
}

const EVERY_MS = 60_000

interface Purgeable {
  purgeStale(): unknown
}

/** Drops expired entries of a cache at intervals, since they may be secrets of users. Ends with the cache. */
export function purgeRegularly(cache: Purgeable, everyMs = EVERY_MS): void {
  const held = new WeakRef(cache)
  const timer = setInterval(() => {
    const still = held.deref()
    if (still === undefined) clearInterval(timer)
    else still.purgeStale()
  }, everyMs)
  timer.unref()
}
