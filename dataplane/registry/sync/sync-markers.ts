import { hash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SyncedSource } from '../sources/format/source.ts'

/**
 * A file in the state directory marks a source as being read. A pass removes it when it ends, with success or not; one
 * that is left behind is of a thread or a process that has ended in the middle.
 */

interface Marker {
  /** Hash of what the source is set to; absent in those of earlier releases. */
  readonly settings?: string
  readonly pid: number
  /** When that process began: a container gives the next one the same number. */
  readonly began: number
}

const folderOf = (stateDirectory: string) => join(stateDirectory, 'syncing')
/** Hash of what a source is set to, as far as its reading goes. */
export const settingsOf = ({ location, filter, maxBytes }: SyncedSource): string =>
  hash('sha256', JSON.stringify([location, filter, maxBytes]), 'base64url')

const self: Marker = { pid: process.pid, began: Math.round(performance.timeOrigin / 1000) }

/**
 * Writes the marker of a source, which is removed when it is disposed of. Written synchronously, before anything is
 * read. Where the folder can't be written to there is no marker, and the source is synced all the same.
 */
export function writeSyncMarker(stateDirectory: string, source: SyncedSource): Disposable {
  const folder = folderOf(stateDirectory)
  const file = join(folder, source.name)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(file, JSON.stringify({ ...self, settings: settingsOf(source) } satisfies Marker), { mode: 0o600 })
  } catch {
    return {
      [Symbol.dispose]() {
        // There is no marker to remove.
      },
    }
  }
  return { [Symbol.dispose]: () => rmSync(file, { force: true }) }
}

/** Sources whose markers this process has written; asked for when its thread has just ended. */
export function ownMarkers(stateDirectory: string): readonly string[] {
  return markers(stateDirectory).flatMap(({ source, marker }) => (isSelf(marker) ? source : []))
}

/** Sources whose markers were left behind by a process that is gone, with the hash of what they were set to. */
export const abandonedMarkers = (
  stateDirectory: string,
): readonly { readonly source: string; readonly settings: string | undefined }[] =>
  markers(stateDirectory).flatMap(({ source, marker }) =>
    isSelf(marker) || isAlive(marker) ? [] : { source, settings: marker?.settings },
  )

export function removeMarker(stateDirectory: string, source: string): void {
  rmSync(join(folderOf(stateDirectory), source), { force: true })
}

function markers(stateDirectory: string) {
  const folder = folderOf(stateDirectory)
  return namesIn(folder).map((source) => ({ source, marker: readMarker(join(folder, source)) }))
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    // There is no such folder before the first marker.
    return []
  }
}

/** Undefined where the file was cut off. */
function readMarker(file: string): Marker | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Marker
  } catch {
    return undefined
  }
}

const isSelf = (marker: Marker | undefined) => marker?.pid === self.pid && Math.abs(marker.began - self.began) <= 1

/** Whether another process of this machine has written the marker and runs. */
function isAlive(marker: Marker | undefined): boolean {
  if (marker === undefined || marker.pid === self.pid) return false
  try {
    return process.kill(marker.pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
