import { hash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SyncedSource } from '../sources/format/source.ts'

/**
 * A file that marks a source as being read. A marker that is left behind shows that its thread or process ended in the
 * middle.
 */

interface Marker {
  readonly settings?: string
  readonly pid: number
  /** The start time of that process: a container gives the next one the same number. */
  readonly began: number
}

const findFolder = (stateDirectory: string) => join(stateDirectory, 'syncing')
/** Returns the hash of the settings that affect the reading of a source. */
export const hashSettings = ({ location, filter, maxBytes }: SyncedSource): string =>
  hash('sha256', JSON.stringify([location, filter, maxBytes]), 'base64url')

const self: Marker = { pid: process.pid, began: Math.round(performance.timeOrigin / 1000) }

/** Writes the marker of a source synchronously; dispose removes it. If the folder is not writable there is none. */
export function writeSyncMarker(stateDirectory: string, source: SyncedSource): Disposable {
  const folder = findFolder(stateDirectory)
  const file = join(folder, source.name)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(file, JSON.stringify({ ...self, settings: hashSettings(source) } satisfies Marker), { mode: 0o600 })
  } catch {
    return {
      [Symbol.dispose]() {
        // There is no marker to remove.
      },
    }
  }
  return { [Symbol.dispose]: () => rmSync(file, { force: true }) }
}

/** Returns the sources whose markers this process has written. It is called when the thread has just ended. */
export function ownMarkers(stateDirectory: string): readonly string[] {
  return markers(stateDirectory).flatMap(({ source, marker }) => (isSelf(marker) ? source : []))
}

/** Returns the sources whose markers a dead process left behind, with the hash of their settings. */
export const abandonedMarkers = (
  stateDirectory: string,
): readonly { readonly source: string; readonly settings: string | undefined }[] =>
  markers(stateDirectory).flatMap(({ source, marker }) =>
    isSelf(marker) || isAlive(marker) ? [] : { source, settings: marker?.settings },
  )

export function removeMarker(stateDirectory: string, source: string): void {
  rmSync(join(findFolder(stateDirectory), source), { force: true })
}

function markers(stateDirectory: string) {
  const folder = findFolder(stateDirectory)
  return namesIn(folder).map((source) => ({ source, marker: readMarker(join(folder, source)) }))
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    // The folder does not exist before the first marker.
    return []
  }
}

/** Reads a marker; undefined if the file was cut off. */
function readMarker(file: string): Marker | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Marker
  } catch {
    return undefined
  }
}

const isSelf = (marker: Marker | undefined) => marker?.pid === self.pid && Math.abs(marker.began - self.began) <= 1

/** Tells whether the marker belongs to another running process of this machine. */
function isAlive(marker: Marker | undefined): boolean {
  if (marker === undefined || marker.pid === self.pid) return false
  try {
    return process.kill(marker.pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
