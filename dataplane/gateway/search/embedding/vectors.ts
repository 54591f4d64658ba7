import { mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { Hit } from '../hits.ts'

/** The memory of a vector besides its numbers: its key, and its place in the cache. */
const ENTRY_BYTES = 256

/** Caches vectors of texts by the digests of model and text, in memory and, if there is a folder, in a file. */
export class Vectors {
  readonly #mostBytes: number
  readonly #kept: LRUCache<string, Float32Array>
  readonly #file: VectorFile

  constructor(mostBytes: number, directory: string, log: Logger) {
    this.#mostBytes = mostBytes
    this.#kept = new LRUCache({ maxSize: mostBytes, sizeCalculation: ({ byteLength }) => byteLength + ENTRY_BYTES })
    this.#file = new VectorFile(directory, log)
  }

  /** Returns the number of vectors of this dimension that fit in memory. */
  roomFor(numbers: number): number {
    return Math.floor(this.#mostBytes / (numbers * Float32Array.BYTES_PER_ELEMENT + ENTRY_BYTES))
  }

  /** Returns the vector in memory; its length is 0 for a text that has none. */
  get(key: string): Float32Array | undefined {
    return this.#kept.get(key)
  }

  /** Loads a vector of this dimension from the file to memory; false if there is none. */
  load(key: string, numbers: number): boolean {
    const vector = this.#file.get(key)
    if (vector?.length !== numbers) return false
    this.#kept.set(key, vector)
    return true
  }

  add(entries: readonly (readonly [key: string, vector: Float32Array])[]): void {
    for (const [key, vector] of entries) this.#kept.set(key, vector)
    this.#file.add(entries)
  }

  /** Records, for the life of this process, that a text has no vector. */
  addNone(key: string): void {
    this.#kept.set(key, NONE)
  }

  get status() {
    return {
      vectors: this.#kept.size,
      vectorBytes: this.#kept.calculatedSize,
      kept: this.#file.isOpen ? ('disk' as const) : ('memory' as const),
    }
  }

  close(): void {
    this.#kept.clear()
    this.#file.close()
  }
}

const NONE = new Float32Array()

/**
 * Returns the tools closest to a vector, at most `most` and none beyond a distance (0 to 2). Scores go from 1 for the
 * closest to 0 for the furthest found: models differ in what is close. Vectors of another dimension are skipped.
 */
export function findClosest(
  to: Float32Array,
  vectors: readonly (Float32Array | undefined)[],
  { most, furthest }: { readonly most: number; readonly furthest: number },
): readonly Hit[] {
  const near: { readonly tool: number; readonly distance: number }[] = []
  for (const [tool, vector] of vectors.entries()) {
    if (vector?.length !== to.length) continue
    const distance = 1 - dotProduct(to, vector)
    if (distance <= furthest) near.push({ tool, distance })
  }
  near.sort((a, b) => a.distance - b.distance || a.tool - b.tool)
  const found = near.slice(0, most)
  const [first, last] = [found[0]?.distance ?? 0, found.at(-1)?.distance ?? 0]
  return found.map(({ tool, distance }) => ({ tool, score: first === last ? 1 : (last - distance) / (last - first) }))
}

function dotProduct(one: Float32Array, other: Float32Array): number {
  let sum = 0
  for (let at = 0; at < one.length; at++) sum += (one[at] as number) * (other[at] as number)
  return sum
}

const NAME = 'embeddings.sqlite'
const PAGE_BYTES = 4096
const MIB = 1024 * 1024
/** The most bytes of the file, besides a log of the last changes. */
const MOST_BYTES = 128 * MIB
const LOG_BYTES = MIB
/** The longest wait for another process on the same file. */
const BUSY_MS = 50

/** Result codes of SQLite (https://sqlite.org/rescode.html). */
const FULL = 13
/** Busy, locked, read-only, I/O error, full, can't open: the file itself is intact. */
const PASSING: ReadonlySet<number> = new Set([5, 6, 8, 10, FULL, 14])
const readCode = (error: unknown): number => ((error as { errcode?: number }).errcode ?? 0) & 0xff
const isBroken = (error: unknown): boolean => readCode(error) !== 0 && !PASSING.has(readCode(error))

/**
 * Stores vectors in a file, a cache: vectors that can't be read are made again. If it is full, the oldest are deleted.
 */
export class VectorFile {
  readonly #path: string
  readonly #log: Logger
  readonly #mostBytes: number
  #database: DatabaseSync | undefined
  #find: StatementSync | undefined
  #add: StatementSync | undefined

  /** Opens the file in a folder and creates the folder. A corrupt file is replaced by an empty one. */
  constructor(directory: string, log: Logger, mostBytes = MOST_BYTES) {
    this.#path = join(directory, NAME)
    this.#log = log
    this.#mostBytes = mostBytes
    if (!this.#opened()) this.#opened()
  }

  /** Tries to open the file. Returns false if it was corrupt and is now removed, so that another try may succeed. */
  #opened(): boolean {
    try {
      mkdirSync(dirname(this.#path), { recursive: true })
      this.#open()
      return true
    } catch (error) {
      this.#failed(error)
      return !isBroken(error)
    }
  }

  get isOpen(): boolean {
    return this.#database?.isOpen === true
  }

  #open(): void {
    // A gateway without an embedding service does not load SQLite.
    const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
    const database = new DatabaseSync(this.#path, { timeout: BUSY_MS })
    this.#database = database
    database.exec(`pragma journal_mode = wal; pragma synchronous = normal; pragma journal_size_limit = ${LOG_BYTES}`)
    database.exec(`pragma max_page_count = ${Math.floor(this.#mostBytes / PAGE_BYTES)}`)
    database.exec('create table if not exists vector (id integer primary key, key text not null unique, numbers blob)')
    this.#find = database.prepare('select numbers from vector where key = ?')
    this.#add = database.prepare('insert or replace into vector (key, numbers) values (?, ?)')
  }

  get(key: string): Float32Array | undefined {
    return this.#tried(() => readVector(this.#find?.get(key)?.['numbers']))
  }

  add(entries: readonly (readonly [key: string, vector: Float32Array])[]): void {
    this.#tried(() => {
      try {
        this.#write(entries)
      } catch (error) {
        if (readCode(error) !== FULL) throw error
        this.#database?.exec('delete from vector where id <= (select min(id) + (max(id) - min(id)) / 4 from vector)')
        this.#write(entries)
      }
    })
  }

  #write(entries: readonly (readonly [string, Float32Array])[]): void {
    const database = this.#database
    database?.exec('begin immediate')
    try {
      for (const [key, { buffer, byteOffset, byteLength }] of entries)
        this.#add?.run(key, new Uint8Array(buffer, byteOffset, byteLength))
      database?.exec('commit')
    } catch (error) {
      if (database?.isTransaction) database.exec('rollback')
      throw error
    }
  }

  close(): void {
    if (this.#database?.isOpen) this.#database.close()
    this.#database = undefined
  }

  #tried<T>(action: () => T): T | undefined {
    if (this.#database === undefined) return undefined
    try {
      return action()
    } catch (error) {
      this.#failed(error)
      if (isBroken(error)) this.#opened()
      return undefined
    }
  }

  /** Handles an error: removes a corrupt file, keeps one open that is only busy or full. */
  #failed(error: unknown): void {
    if (this.isOpen && PASSING.has(readCode(error))) return
    this.#log.warn({ err: error, file: this.#path }, 'the file of vectors can’t be used')
    try {
      this.close()
      if (isBroken(error)) for (const end of ['', '-wal', '-shm']) rmSync(this.#path + end, { force: true })
    } catch (failure) {
      this.#log.debug({ err: failure }, 'the file of vectors could not be removed')
    }
  }
}

/** Reads a vector of unit length from its stored bytes; undefined for any other value. */
function readVector(bytes: unknown): Float32Array | undefined {
  if (!(bytes instanceof Uint8Array) || bytes.length === 0 || bytes.length % 4 !== 0) return undefined
  const vector = new Float32Array(bytes.slice().buffer)
  let squares = 0
  for (const number of vector) squares += number * number
  return Math.abs(squares - 1) < 0.01 ? vector : undefined
}
