import { hash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { SyncedSource, SyncResult } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import type { SyncCall } from './schedule.ts'

interface QuarantinedSource {
  /** The hash of the source's settings; empty if it is not known. */
  readonly settings: string
  /** The number of times that a thread or process has ended while the source was read. */
  readonly ends: number
  /** The end of the quarantine in milliseconds since 1970. 0: the source may be tried at once, alone. */
  readonly until: number
  /** The last event, for people. */
  readonly what: string
}

const FIRST_WAIT_MS = 60_000
const LONGEST_WAIT_MS = 60 * 60_000
const PROCESS_ENDED = 'the process ended'

type Sync = (source: SyncedSource, call: SyncCall) => Promise<SyncResult>

/**
 * Opens the quarantine, which is stored on the disk. A source that was read when a process ended is tried once more,
 * alone, since most processes end for other reasons.
 */
export function openQuarantine(stateDirectory: string, log: Logger) {
  const folder = join(stateDirectory, 'aside')
  const known = new Map<string, QuarantinedSource | undefined>()

  function findEntry(source: string): QuarantinedSource | undefined {
    if (!known.has(source)) known.set(source, readEntry(join(folder, source)))
    return known.get(source)
  }

  function add(source: string, entry: QuarantinedSource): void {
    known.set(source, entry)
    log.error({ source, ends: entry.ends, until: new Date(entry.until).toISOString() }, `put aside: ${entry.what}`)
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      writeFileSync(join(folder, source), JSON.stringify(entry), { mode: 0o600 })
    } catch (error) {
      log.warn({ source, err: error }, 'the quarantine of a source can’t be stored')
    }
  }

  function clear(source: string): void {
    if (findEntry(source) === undefined) return
    known.set(source, undefined)
    rmSync(join(folder, source), { force: true })
  }

  for (const { source, marker } of readMarkers(stateDirectory)) {
    if (isSelf(marker) || isAlive(marker)) continue
    removeMarker(stateDirectory, source)
    const before = findEntry(source)
    const settings = marker?.settings ?? before?.settings ?? ''
    // Incidents with earlier settings don't count.
    const ends = before?.settings === '' || before?.settings === settings ? before.ends : 0
    const until = ends === 0 ? 0 : Date.now() + computeWait(ends)
    add(source, { settings, ends: ends + 1, until, what: PROCESS_ENDED })
  }

  return {
    /** Throws a SourceError while the source is in quarantine. */
    check(source: SyncedSource) {
      const entry = findEntry(source.name)
      if (entry === undefined) return
      if (entry.settings !== '' && entry.settings !== hashSettings(source)) return clear(source.name)
      const left = entry.until - Date.now()
      // If it is longer than the longest wait, the clock was wrong then.
      if (left > 0 && left <= LONGEST_WAIT_MS) throw buildRefusal(entry, left)
    },
    /** Tells whether the source may have ended a thread or process. */
    isSuspect: (source: string) => findEntry(source) !== undefined,
    clear,
    /** Must be called when the thread has ended while these sources were synced. */
    threadEnded(running: readonly SyncedSource[], what: string): void {
      const own = readMarkers(stateDirectory).filter(({ marker }) => isSelf(marker))
      const withMarker = new Set(own.map(({ source }) => source))
      for (const source of withMarker) removeMarker(stateDirectory, source)
      const reading = running.filter(({ name }) => withMarker.has(name))
      const possible = reading.length > 0 ? reading : running
      const before = possible.filter(({ name }) => findEntry(name) !== undefined)
      const suspects = before.length > 0 ? before : possible
      for (const source of suspects) {
        const ends = (findEntry(source.name)?.ends ?? 0) + 1
        // If there are several, one is the cause. They are tried again one at a time, which shows which.
        const until = suspects.length === 1 ? Date.now() + computeWait(ends) : 0
        add(source.name, { settings: hashSettings(source), ends, until, what })
      }
    },
  }
}

/** Returns the wait after so many incidents: four times as long each time. */
const computeWait = (ends: number) => Math.min(FIRST_WAIT_MS * 4 ** Math.min(ends - 1, 10), LONGEST_WAIT_MS)

function buildRefusal({ ends, until, what }: QuarantinedSource, retryAfterMs: number): SourceError {
  const times = ends === 1 ? '' : `, ${ends} times in a row`
  const message = `${what} while this source was being read${times}; it is put aside until ${new Date(until).toISOString()} or until its settings change; other sources are synced`
  return new SourceError('put_aside', message, { retryAfterMs })
}

function readEntry(file: string): QuarantinedSource | undefined {
  try {
    const { settings, ends, until, what } = JSON.parse(readFileSync(file, 'utf8')) as Partial<QuarantinedSource>
    return { settings: String(settings), ends: Number(ends), until: Number(until), what: String(what) }
  } catch {
    // There is no file, or it was cut off while it was written.
    return undefined
  }
}

/** Wraps a sync so that sources in quarantine are refused, and suspects run one at a time. */
export function guardSyncs(sync: Sync, quarantine: ReturnType<typeof openQuarantine>): Sync {
  let lastSuspect: Promise<unknown> = Promise.resolve()

  async function run(source: SyncedSource, call: SyncCall): Promise<SyncResult> {
    quarantine.check(source)
    try {
      const synced = await sync(source, call)
      quarantine.clear(source.name)
      return synced
    } catch (error) {
      // Other errors may come from the end of the thread, which the quarantine's error explains.
      if (!(error instanceof SourceError)) quarantine.check(source)
      throw error
    }
  }

  return function guardedSync(source, call) {
    quarantine.check(source)
    if (!quarantine.isSuspect(source.name)) return run(source, call)
    const running = lastSuspect.then(() => {
      call.signal.throwIfAborted()
      return run(source, call)
    })
    lastSuspect = running.catch(() => {
      // The caller gets the error. The next suspect only waits for the end.
    })
    return running
  }
}

/** A file that exists while a source is read. If it is left behind, the thread or process ended meanwhile. */
interface Marker {
  readonly settings?: string
  readonly pid: number
  /** The start time of the process: in a container the next process may have the same id. */
  readonly began: number
}

const findFolder = (stateDirectory: string) => join(stateDirectory, 'syncing')
/** Returns the hash of the settings that affect the reading of a source. */
export const hashSettings = ({ location, filter, maxBytes }: SyncedSource): string =>
  hash('sha256', JSON.stringify([location, filter, maxBytes]), 'base64url')

const self: Marker = { pid: process.pid, began: Math.round(performance.timeOrigin / 1000) }

/** Writes the marker of a source, and removes it when it is disposed. Without a writable folder there is none. */
export function writeSyncMarker(stateDirectory: string, source: SyncedSource): Disposable | undefined {
  const folder = findFolder(stateDirectory)
  const file = join(folder, source.name)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(file, JSON.stringify({ ...self, settings: hashSettings(source) } satisfies Marker), { mode: 0o600 })
  } catch {
    return undefined
  }
  return { [Symbol.dispose]: () => rmSync(file, { force: true }) }
}

function removeMarker(stateDirectory: string, source: string): void {
  rmSync(join(findFolder(stateDirectory), source), { force: true })
}

function readMarkers(stateDirectory: string) {
  const folder = findFolder(stateDirectory)
  return listFiles(folder).map((source) => ({ source, marker: readMarker(join(folder, source)) }))
}

function listFiles(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    // The folder does not exist before the first marker.
    return []
  }
}

function readMarker(file: string): Marker | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Marker
  } catch {
    return undefined
  }
}

const isSelf = (marker: Marker | undefined) => marker?.pid === self.pid && Math.abs(marker.began - self.began) <= 1

/** Tells whether the marker is of another process that runs on this machine. */
function isAlive(marker: Marker | undefined): boolean {
  if (marker === undefined || marker.pid === self.pid) return false
  try {
    return process.kill(marker.pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
