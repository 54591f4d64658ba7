/**
 * Names who makes us keep something, the widest group first: the networks that an address is in, or a user. Those below one
 * group share what that group has.
 */
export type Holder = readonly string[]

interface FairCacheOptions {
  /** Of all entries together, in the unit of their sizes. */
  readonly most: number
  /** What a holder takes besides the entries, and each group above it; absent: nothing. */
  readonly holderSize?: number
  /** Holders of no more than so much are equals: of these the one goes first that has used nothing for longest. */
  readonly even?: number
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

interface EntryOptions {
  readonly size: number
  readonly ttlMs: number
  /** Absent: whoever holds the entry that it replaces, else nobody known. */
  readonly holder?: Holder | undefined
}

/** What goes first where somebody needs room. */
export interface Leaver {
  readonly key: string
  /** When it was added, in milliseconds since 1970. */
  readonly addedAt: number
  /** Whether its holder has more than the one who needs the room would have then. */
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

/** Something in a queue. */
interface Queued {
  before?: this | undefined
  after?: this | undefined
}

/** What has ended is dropped to make room, no more often than this. */
const PURGE_AGAIN_MS = 1_000
const EVEN = 1_024
const MOST_EVEN = 1 / 64
/** Steps between what somebody holds and twice as much. */
const STEPS = 4
/** Nobody who is known. */
export const NOBODY: Holder = ['']

/**
 * Keeps entries of many holders in a bounded room. Whoever holds most makes room for the others: somebody who adds without
 * end pushes out what is their own, and nothing of those who hold little. Of one holder the entry goes first that was not
 * used for longest.
 */
export class FairCache<V> {
  readonly most: number
  readonly #entries = new Map<string, Entry<V>>()
  readonly #all: Part<V>
  readonly #now: () => number
  #purgedAt = 0

  constructor({ most, holderSize = 0, even = EVEN, now = Date.now }: FairCacheOptions) {
    this.most = most
    this.#now = now
    this.#all = new Part('', undefined, { holderSize, even: Math.max(1, Math.min(even, most * MOST_EVEN)) })
  }

  /** How many entries there are. */
  get size(): number {
    return this.#entries.size
  }

  /** What all entries and holders take together. */
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

  /** Milliseconds that are left of an entry; 0 where there is none. */
  leftOf(key: string): number {
    return Math.max(0, (this.#entries.get(key)?.until ?? 0) - this.#now())
  }

  holderOf(key: string): Holder | undefined {
    return this.#entries.get(key)?.part.path
  }

  /** What somebody holds. */
  heldBy(holder: Holder): number {
    return this.#all.find(holder)?.held ?? 0
  }

  /**
   * Keeps an entry, in place of the one of this name. Others go where there is no room; what is larger than all of it is not
   * kept.
   */
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

  /** What an entry of a holder takes, with what the holder itself does who has none yet. */
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

  /** Whether there is room for so much, once what has ended is gone. */
  hasRoom(size: number): boolean {
    if (this.held + size <= this.most) return true
    this.purgeLately()
    return this.held + size <= this.most
  }

  /** What goes first where a holder needs so much room; undefined where there is nothing. */
  leaver(holder: Holder, size: number): Leaver | undefined {
    return this.#all.leaver(holder, size)
  }

  *entries(): Generator<readonly [string, V]> {
    const now = this.#now()
    for (const [key, { value, until }] of this.#entries) if (until > now) yield [key, value]
  }

  /** Drops what has ended. */
  purgeStale(): void {
    const now = this.#now()
    this.#purgedAt = now
    for (const [key, { until }] of this.#entries) if (until <= now) this.delete(key)
  }

  /** The same, unless that was done a moment ago: who finds no room asks again and again. */
  purgeLately(): void {
    if (this.#now() - this.#purgedAt >= PURGE_AGAIN_MS) this.purgeStale()
  }

  clear(): void {
    for (const key of [...this.#entries.keys()]) this.delete(key)
  }
}

/** A queue that anything leaves in a step, which a Set of much that has left does not: it steps over all of that. */
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

/** The holders of a group. */
interface Group<V> {
  readonly parts: Map<string, Part<V>>
  /** The parts by how much they hold; in each, those come first that were not used for longest. */
  readonly levels: Map<number, Queue<Part<V>>>
}

interface PartOptions {
  readonly holderSize: number
  readonly even: number
}

/** What a holder has, or a group of holders. */
class Part<V> implements Queued {
  before?: this
  after?: this
  readonly name: string
  readonly parent: Part<V> | undefined
  readonly options: PartOptions
  /** Both are made where they are needed: there are many holders. */
  group: Group<V> | undefined
  /** Those first that were not used for longest. */
  entries: Queue<Entry<V>> | undefined
  held = 0

  constructor(name: string, parent: Part<V> | undefined, options: PartOptions) {
    this.name = name
    this.parent = parent
    this.options = options
  }

  /** What it takes besides its entries. Those of nobody known are in one part. */
  get own(): number {
    return this.name === '' ? 0 : this.options.holderSize
  }

  get path(): Holder {
    return this.parent === undefined ? [] : [...this.parent.path, this.name]
  }

  /** The part of a holder, which is made where there is none. */
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

  /** What those parts would take besides their entries that are to be made for a holder. */
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

  /** The entry that goes first where a holder below this part needs so much room. */
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
    const isMore = !isOwn && this.levelOf((parts?.get(name)?.held ?? 0) + size) < top
    return found && { ...found, isHeldByMore: isMore || (isOwn && found.isHeldByMore) }
  }

  levelOf(held: number): number {
    const { even } = this.options
    return held <= even ? 0 : 1 + Math.floor(STEPS * Math.log2(held / even))
  }

  /** Holds so much more, and has been used just now; or holds so much less, which is no use. */
  grow(size: number): void {
    const group = this.parent?.group
    const isMoved = size >= 0 || this.levelOf(this.held) !== this.levelOf(this.held + size)
    if (group !== undefined && isMoved) this.leave(group)
    this.held += size
    if (group !== undefined && isMoved) this.enter(group)
    this.parent?.grow(size)
  }

  /** Drops a part that has nothing any more. */
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
    const level = this.levelOf(this.held)
    const queue = levels.get(level)
    queue?.remove(this)
    if (queue?.first === undefined) levels.delete(level)
  }

  enter({ levels }: Group<V>): void {
    const level = this.levelOf(this.held)
    let queue = levels.get(level)
    if (queue === undefined) levels.set(level, (queue = new Queue()))
    queue.push(this)
  }
}
