import { Lease, type Share } from '../../../server/budget.ts'
import type { ListKind } from './list-kind.ts'

/** What an item costs beside its text. */
const ITEM_BYTES = 256

/** Counts what is kept of one list of a backend. While it is read anew, what is kept of the last reading goes on. */
export class ListRoom {
  /** Whether the list was cut where there was no more room. */
  isFull = false
  readonly #lease: Lease
  /** Bytes of the last whole reading, and of the one that goes on. */
  #kept = 0
  #read = 0
  #overflowed = false
  #released = false

  constructor(share: Share) {
    this.#lease = new Lease(share)
  }

  /** The list is read from its beginning. */
  begin(): void {
    this.#read = 0
    this.#overflowed = false
  }

  /** Whether there is room for an item with so much text; nothing behind one that does not fit is kept. */
  readonly fits = (textLength: number): boolean => {
    if (this.#overflowed || this.#released) return false
    const read = this.#read + textLength + ITEM_BYTES
    if (read > this.#lease.bytes && !this.#lease.resize(read)) this.#overflowed = true
    else this.#read = read
    return !this.#overflowed
  }

  /** Nothing more is read: there is more of it than is ever asked for. */
  end(): void {
    this.#overflowed = true
  }

  /** No more pages are to be requested. */
  get isOver(): boolean {
    return this.#overflowed
  }

  /** What was read has taken the place of what was kept. */
  settle(): void {
    if (this.#released) return
    this.isFull = this.#overflowed
    this.#kept = this.#read
    this.#lease.resize(this.#kept)
  }

  /** What was read is not kept. */
  giveUp(): void {
    if (!this.#released) this.#lease.resize(this.#kept)
  }

  /** For good: what is still being read is not kept either. */
  release(): void {
    this.#released = true
    this.#lease.release()
  }
}

/** The lists of one backend, which share what it may make the gateway keep. */
export class ListRooms {
  readonly #of: Readonly<Record<ListKind, ListRoom>>

  constructor(share: Share) {
    const room = () => new ListRoom(share)
    this.#of = { tools: room(), prompts: room(), resources: room(), templates: room() }
  }

  room(kind: ListKind): ListRoom {
    return this.#of[kind]
  }

  /** Whether some list is not whole. */
  get areCut(): boolean {
    return Object.values(this.#of).some(({ isFull }) => isFull)
  }

  /** For people: which lists are not whole. */
  get warnings(): readonly string[] {
    const cut = Object.entries(this.#of).filter(([, { isFull }]) => isFull)
    return cut.map(([kind]) => `the list of ${kind} is cut: it is larger than there is room for`)
  }

  release(): void {
    for (const room of Object.values(this.#of)) room.release()
  }
}
