import { createHash } from 'node:crypto'
import { Reservation, type Share } from '../../../server/budget.ts'
import { forEachKind, type ListKind } from './list-kind.ts'
import type { BackendItem } from './list-page.ts'

/** The bytes counted for an item in addition to its text. */
const ITEM_BYTES = 256

/** Counts the bytes of one list of a backend. While the list is read again, the earlier version is kept and counts. */
export class ListRoom {
  /** True if the list was cut because memory was short. */
  isFull = false
  readonly #reservation: Reservation
  /** The bytes of the kept list, and of the list that is being read. */
  #kept = 0
  #read = 0
  /** True if no more pages are needed. */
  isOver = false
  #released = false

  constructor(share: Share) {
    this.#reservation = new Reservation(share)
  }

  /** Starts to read the list from the beginning. */
  begin(): void {
    this.#read = 0
    this.isOver = false
  }

  /** Tells whether an item with this text length fits. After one that does not fit, no further item is kept. */
  readonly fits = (textLength: number): boolean => {
    if (this.isOver || this.#released) return false
    const read = this.#read + textLength + ITEM_BYTES
    if (read > this.#reservation.bytes && !this.#reservation.resize(read)) this.isOver = true
    else this.#read = read
    return !this.isOver
  }

  /** Ends a list that exceeds the number of pages or items that the gateway reads. */
  end(): void {
    this.isOver = true
  }

  /** Replaces the old list by the one that was just read. */
  settle(): void {
    if (this.#released) return
    this.isFull = this.isOver
    this.#kept = this.#read
    this.#reservation.resize(this.#kept)
  }

  /** Stops counting the list that was just read, because the caller discards it. */
  giveUp(): void {
    if (!this.#released) this.#reservation.resize(this.#kept)
  }

  /** Releases all memory for good, including that of a list that is being read. */
  release(): void {
    this.#released = true
    this.#reservation.release()
  }
}

/** The lists of one backend, which share its memory limit. */
export class ListRooms {
  readonly #of: Readonly<Record<ListKind, ListRoom>>

  constructor(share: Share) {
    this.#of = forEachKind(() => new ListRoom(share))
  }

  room(kind: ListKind): ListRoom {
    return this.#of[kind]
  }

  /** True if some list is incomplete. */
  get areCut(): boolean {
    return Object.values(this.#of).some(({ isFull }) => isFull)
  }

  /** Warnings for operators that name the incomplete lists other than that of skills. */
  get warnings(): readonly string[] {
    const cut = Object.entries(this.#of).filter(([kind, { isFull }]) => isFull && kind !== 'skills')
    return cut.map(([kind]) => `the list of ${kind} is cut: it is larger than there is room for`)
  }

  release(): void {
    for (const room of Object.values(this.#of)) room.release()
  }
}

/** An item of a list. Its other members all derive from its JSON text. */
type Item = Pick<BackendItem, 'text' | 'source'>

/**
 * Shares equal lists: callers to whom a backend shows the same texts hold one list. A list is remembered while a caller
 * holds it.
 */
export class SharedLists {
  readonly #known = new Map<string, WeakRef<readonly Item[]>>()
  readonly #gone = new FinalizationRegistry<string>((digest) => {
    // Another list with the same texts may have been added since.
    if (this.#known.get(digest)?.deref() === undefined) this.#known.delete(digest)
  })

  get count(): number {
    return this.#known.size
  }

  /**
   * Returns the remembered list of this kind with the same texts in the same order. Without one, remembers and returns
   * `list`.
   */
  same<T extends Item>(kind: ListKind, list: readonly T[]): readonly T[] {
    const digest = digestList(kind, list)
    const known = this.#known.get(digest)?.deref()
    if (known !== undefined) return known as readonly T[]
    this.#known.set(digest, new WeakRef(list))
    this.#gone.register(list, digest)
    return list
  }
}

/** Returns a digest that differs for lists that differ in kind or texts. Each text is preceded by its length. */
function digestList(kind: ListKind, list: readonly Item[]): string {
  const digest = createHash('sha256').update(kind)
  for (const { text, source = '' } of list)
    digest.update(`${text.length}:${source.length}:`).update(text).update(source)
  return digest.digest('base64url')
}

/**
 * Tells whether two lists have the same texts, both before and after repairs, because pins are digests of the texts
 * before.
 */
export function sameTexts(before: readonly Item[] | undefined, after: readonly Item[]): boolean {
  if (before?.length !== after.length) return false
  return after.every(({ text, source }, index) => text === before[index]?.text && source === before[index]?.source)
}
