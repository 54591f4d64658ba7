import { randomUUID } from 'node:crypto'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'

/** A clone that no source has used for this time is removed. */
const KEPT_MS = 60 * 60_000

export interface Clone {
  /** The folder is missing or empty before the first fetch. */
  readonly folder: string
  /** True if whole commits must be fetched, since the server can't omit files or send a single one. */
  isWhole: boolean
}

interface Use {
  readonly key: string
  /** The most bytes of all clones. The least recently used are removed, unless they are in use. */
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** The clones of repositories in the state directory. Sources of one repository share a clone. */
export type KeptClones = ReturnType<typeof createKeptClones>

interface Kept extends Clone {
  /** Resolves when all users that work in the clone or wait for it have finished. */
  turn: Promise<unknown>
  users: number
  bytes: number
  readonly timer: NodeJS.Timeout
}

export function createKeptClones(stateDirectory: string) {
  const root = resolve(stateDirectory, 'git')
  /** The least recently used one comes first. */
  const clones = new Map<string, Kept>()
  const cleared = rm(root, { recursive: true, force: true }).catch(() => {
    // If nothing can be removed, nothing can be written either; the first use reports that.
  })

  function open(key: string): Kept {
    const clone = clones.get(key) ?? create(key)
    clone.timer.refresh()
    clones.delete(key)
    clones.set(key, clone)
    return clone
  }

  function create(key: string): Kept {
    const timer = setTimeout(() => {
      const clone = clones.get(key)
      if (clone?.users !== 0) return void clone?.timer.refresh()
      drop(key, clone).catch(() => {
        // The next process removes it.
      })
    }, KEPT_MS).unref()
    const folder = join(root, randomUUID())
    return { folder, isWhole: false, turn: cleared, users: 0, bytes: 0, timer }
  }

  async function drop(key: string, clone: Kept): Promise<void> {
    clones.delete(key)
    clearTimeout(clone.timer)
    await rm(clone.folder, { recursive: true, force: true })
  }

  async function makeRoom(maxBytes: number): Promise<void> {
    let bytes = 0
    for (const clone of clones.values()) bytes += clone.bytes
    for (const [key, clone] of [...clones]) {
      if (bytes <= maxBytes) return
      if (clone.users > 0 || clones.get(key) !== clone) continue
      bytes -= clone.bytes
      await drop(key, clone).catch(() => {
        // The next process removes it.
      })
    }
  }

  return {
    /** Runs work in a clone, once all earlier users have finished. */
    async use<T>({ key, maxBytes, signal }: Use, work: (clone: Clone) => Promise<T>): Promise<T> {
      const clone = open(key)
      clone.users++
      const before = clone.turn
      const { promise: turn, resolve: endTurn } = Promise.withResolvers<void>()
      clone.turn = before.then(() => turn)
      try {
        await unlessAborted(before, signal)
        await mkdir(root, { recursive: true, mode: 0o700 })
        return await work(clone)
      } finally {
        clone.bytes = await measureSize(clone.folder)
        clone.users--
        endTurn()
        await makeRoom(maxBytes)
      }
    },
    /** Counts a clone as used: a source has polled and found no change. */
    touch(key: string): void {
      if (clones.has(key)) open(key)
    },
    /** Removes all clones; none may be in use any more. */
    async close(): Promise<void> {
      for (const { timer } of clones.values()) clearTimeout(timer)
      clones.clear()
      await rm(root, { recursive: true, force: true }).catch(() => {
        // The next process removes them.
      })
    },
  }
}

async function unlessAborted(wait: Promise<unknown>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    await Promise.race([wait, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Returns the bytes of a clone's objects: packs, and from a plain web server loose ones too. */
export async function measureSize(folder: string): Promise<number> {
  const objects = join(folder, 'objects')
  const names = await readdir(objects, { recursive: true }).catch(() => [])
  let bytes = 0
  for (const name of names) bytes += (await stat(join(objects, name)).catch(() => ({ size: 0 }))).size
  return bytes
}
