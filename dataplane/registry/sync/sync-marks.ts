import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A file in the state directory says that a source is being read. A pass takes it away when it ends, well or not; one that
 * is left behind is of a thread or a process that has ended in the middle.
 */

interface Mark {
  readonly pid: number
  /** When that process began: a container gives the next one the same number. */
  readonly began: number
}

const folderOf = (stateDirectory: string) => join(stateDirectory, 'syncing')
const self: Mark = { pid: process.pid, began: Math.round(performance.timeOrigin / 1000) }

/**
 * Marks a source until the mark is disposed of. Written at once: nothing may happen before. Where the folder can't be
 * written to there is no mark, which is no reason to do without the source.
 */
export function markSyncing(stateDirectory: string, source: string): Disposable {
  const folder = folderOf(stateDirectory)
  const file = join(folder, source)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(file, JSON.stringify(self), { mode: 0o600 })
  } catch {
    return { [Symbol.dispose]() {} }
  }
  return { [Symbol.dispose]: () => rmSync(file, { force: true }) }
}

/** Sources that this process has marked; for one whose thread has just ended. */
export function ownMarks(stateDirectory: string): readonly string[] {
  return marks(stateDirectory).flatMap(({ source, mark }) => (isSelf(mark) ? source : []))
}

/** Sources whose marks were left behind by a process that is gone. */
export function leftMarks(stateDirectory: string): readonly string[] {
  return marks(stateDirectory).flatMap(({ source, mark }) => (isSelf(mark) || isAlive(mark) ? [] : source))
}

export function removeMark(stateDirectory: string, source: string): void {
  rmSync(join(folderOf(stateDirectory), source), { force: true })
}

function marks(stateDirectory: string) {
  const folder = folderOf(stateDirectory)
  return namesIn(folder).map((source) => ({ source, mark: readMark(join(folder, source)) }))
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Undefined where the file was cut off. */
function readMark(file: string): Mark | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Mark
  } catch {
    return undefined
  }
}

const isSelf = (mark: Mark | undefined) => mark?.pid === self.pid && Math.abs(mark.began - self.began) <= 1

/** Whether another process of this machine has made the mark and runs. */
function isAlive(mark: Mark | undefined): boolean {
  if (mark === undefined || mark.pid === self.pid) return false
  try {
    return process.kill(mark.pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
