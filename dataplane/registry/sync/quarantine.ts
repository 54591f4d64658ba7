import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { SyncedSource, SyncResult } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import type { SyncCall } from './schedule.ts'
import { abandonedMarkers, hashSettings, ownMarkers, removeMarker } from './sync-markers.ts'

interface QuarantinedSource {
  /** The hash of the source's settings; empty if it is not known. */
  readonly settings: string
  readonly ends: number
  /** The end of the quarantine in milliseconds since 1970. 0: the source may run at once, but alone. */
  readonly until: number
  /** The last incident, for people. */
  readonly what: string
}

export interface Quarantine {
  check(source: SyncedSource): void
  isSuspect(source: string): boolean
  clear(source: string): void
  /** Must be called when the thread has ended while these sources were being synced. */
  threadEnded(running: readonly SyncedSource[], what: string): void
}

const FIRST_WAIT_MS = 60_000
const LONGEST_WAIT_MS = 60 * 60_000
const PROCESS_ENDED = 'the process ended'

type Sync = (source: SyncedSource, call: SyncCall) => Promise<SyncResult>

/**
 * Opens the quarantine, which outlives the process. A source that was being read when a process ended is tried once
 * more, alone: most processes end for other reasons.
 */
export function openQuarantine(stateDirectory: string, log: Logger): Quarantine {
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

  for (const { source, settings: marked } of abandonedMarkers(stateDirectory)) {
    removeMarker(stateDirectory, source)
    const before = findEntry(source)
    const settings = marked ?? before?.settings ?? ''
    // A failure with other settings does not count against the current ones.
    const ends = before?.settings === '' || before?.settings === settings ? before.ends : 0
    const until = ends === 0 ? 0 : Date.now() + computeWait(ends)
    add(source, { settings, ends: ends + 1, until, what: PROCESS_ENDED })
  }

  return {
    check(source) {
      const entry = findEntry(source.name)
      if (entry === undefined) return
      if (entry.settings !== '' && entry.settings !== hashSettings(source)) return clear(source.name)
      const left = entry.until - Date.now()
      // A longer time than any wait of ours means that the clock was ahead then.
      if (left > 0 && left <= LONGEST_WAIT_MS) throw tooEarly(entry, left)
    },
    isSuspect: (source) => findEntry(source) !== undefined,
    clear,
    threadEnded(running, what) {
      const withMarker = new Set(ownMarkers(stateDirectory))
      for (const source of withMarker) removeMarker(stateDirectory, source)
      const reading = running.filter(({ name }) => withMarker.has(name))
      const possible = reading.length > 0 ? reading : running
      const before = possible.filter(({ name }) => findEntry(name) !== undefined)
      const suspects = before.length > 0 ? before : possible
      for (const source of suspects) {
        const ends = (findEntry(source.name)?.ends ?? 0) + 1
        // One of several is the cause. They are tried again one at a time, which shows which one it is.
        const until = suspects.length === 1 ? Date.now() + computeWait(ends) : 0
        add(source.name, { settings: hashSettings(source), ends, until, what })
      }
    },
  }
}

/** Returns the wait, which grows by a factor of four each time. */
const computeWait = (ends: number) => Math.min(FIRST_WAIT_MS * 4 ** Math.min(ends - 1, 10), LONGEST_WAIT_MS)

function tooEarly({ ends, until, what }: QuarantinedSource, retryAfterMs: number): SourceError {
  const times = ends === 1 ? '' : `, ${ends} times in a row`
  const message = `${what} while this source was being read${times}; it is put aside until ${new Date(until).toISOString()} or until its settings change; other sources are synced`
  return new SourceError('put_aside', message, { retryAfterMs })
}

function readEntry(file: string): QuarantinedSource | undefined {
  try {
    const { settings, ends, until, what } = JSON.parse(readFileSync(file, 'utf8')) as Partial<QuarantinedSource>
    return { settings: String(settings), ends: Number(ends), until: Number(until), what: String(what) }
  } catch {
    // The file is missing, or was cut off while it was written.
    return undefined
  }
}

/** Keeps sources in quarantine from the writing thread. Suspects are tried one at a time. */
export function guardSyncs(sync: Sync, quarantine: Quarantine): Sync {
  let lastSuspect: Promise<unknown> = Promise.resolve()

  async function run(source: SyncedSource, call: SyncCall): Promise<SyncResult> {
    quarantine.check(source)
    try {
      const synced = await sync(source, call)
      quarantine.clear(source.name)
      return synced
    } catch (error) {
      // Any error but a SourceError may be the end of the thread, which the quarantine's error explains.
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
      // The caller gets the error; the next suspect only waits for the end.
    })
    return running
  }
}
