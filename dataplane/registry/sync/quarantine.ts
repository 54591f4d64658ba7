import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { SyncedSource, SyncResult } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import type { SyncCall } from './schedule.ts'
import { abandonedMarkers, ownMarkers, removeMarker, settingsOf } from './sync-markers.ts'

/** A source during whose sync the writing thread, or the process, has ended. */
interface QuarantinedSource {
  /** Hash of what the source was set to; empty where that is not known. */
  readonly settings: string
  /** How often in a row. */
  readonly ends: number
  /** Milliseconds since 1970; not tried before. 0: at once, but alone. */
  readonly until: number
  /** What happened the last time, for people. */
  readonly what: string
}

/** Keeps sources from the writing thread that have ended or stalled it. */
export interface Quarantine {
  /** Throws a SourceError `put_aside` where it is not time for the source yet. */
  check(source: SyncedSource): void
  /** Whether the source has ended the thread and has not been synced since: such ones run one at a time. */
  isSuspect(source: string): boolean
  /** To be called when the source was synced. */
  clear(source: string): void
  /** To be called when the thread has ended while these sources were being synced. */
  threadEnded(running: readonly SyncedSource[], what: string): void
}

const FIRST_WAIT_MS = 60_000
const LONGEST_WAIT_MS = 60 * 60_000
const PROCESS_ENDED = 'the process ended'

type Sync = (source: SyncedSource, call: SyncCall) => Promise<SyncResult>

/**
 * The quarantine is kept in the state directory, so that it outlives the process. A source that was being read when a
 * process ended is tried once more, alone: most processes end for other reasons.
 */
export function openQuarantine(stateDirectory: string, log: Logger): Quarantine {
  const folder = join(stateDirectory, 'aside')
  const known = new Map<string, QuarantinedSource | undefined>()

  function entryOf(source: string): QuarantinedSource | undefined {
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
      log.warn({ source, err: error }, 'that the source was put aside is not kept')
    }
  }

  function clear(source: string): void {
    if (entryOf(source) === undefined) return
    known.set(source, undefined)
    rmSync(join(folder, source), { force: true })
  }

  for (const { source, settings: marked } of abandonedMarkers(stateDirectory)) {
    removeMarker(stateDirectory, source)
    const before = entryOf(source)
    const settings = marked ?? before?.settings ?? ''
    // What it was set to before says nothing of what it is set to now.
    const ends = before?.settings === '' || before?.settings === settings ? before.ends : 0
    const until = ends === 0 ? 0 : Date.now() + waitOf(ends)
    add(source, { settings, ends: ends + 1, until, what: PROCESS_ENDED })
  }

  return {
    check(source) {
      const entry = entryOf(source.name)
      if (entry === undefined) return
      if (entry.settings !== '' && entry.settings !== settingsOf(source)) return clear(source.name)
      const left = entry.until - Date.now()
      // Longer than any wait of ours: the clock was ahead then.
      if (left > 0 && left <= LONGEST_WAIT_MS) throw tooEarly(entry, left)
    },
    isSuspect: (source) => entryOf(source) !== undefined,
    clear,
    threadEnded(running, what) {
      const withMarker = new Set(ownMarkers(stateDirectory))
      for (const source of withMarker) removeMarker(stateDirectory, source)
      const reading = running.filter(({ name }) => withMarker.has(name))
      const possible = reading.length > 0 ? reading : running
      const before = possible.filter(({ name }) => entryOf(name) !== undefined)
      const suspects = before.length > 0 ? before : possible
      for (const source of suspects) {
        const ends = (entryOf(source.name)?.ends ?? 0) + 1
        // One of several was it: tried once more, one at a time, it shows which.
        const until = suspects.length === 1 ? Date.now() + waitOf(ends) : 0
        add(source.name, { settings: settingsOf(source), ends, until, what })
      }
    },
  }
}

/** Grows by a factor of four each time. */
const waitOf = (ends: number) => Math.min(FIRST_WAIT_MS * 4 ** Math.min(ends - 1, 10), LONGEST_WAIT_MS)

function tooEarly({ ends, until, what }: QuarantinedSource, retryAfterMs: number): SourceError {
  const times = ends === 1 ? '' : `, ${ends} times in a row`
  const message = `${what} while this source was being read${times}; it is put aside until ${new Date(until).toISOString()} or until it is set otherwise, and the others go on`
  return new SourceError('put_aside', message, { retryAfterMs })
}

function readEntry(file: string): QuarantinedSource | undefined {
  try {
    const { settings, ends, until, what } = JSON.parse(readFileSync(file, 'utf8')) as Partial<QuarantinedSource>
    return { settings: String(settings), ends: Number(ends), until: Number(until), what: String(what) }
  } catch {
    // There is none, or it was cut off while it was written.
    return undefined
  }
}

/**
 * Keeps syncs from the writing thread while their source is in quarantine. Those that have ended the thread before
 * are tried one at a time, so that it shows which of them it is.
 */
export function guardSyncs(sync: Sync, quarantine: Quarantine): Sync {
  let lastSuspect: Promise<unknown> = Promise.resolve()

  async function run(source: SyncedSource, call: SyncCall): Promise<SyncResult> {
    quarantine.check(source)
    try {
      const synced = await sync(source, call)
      quarantine.clear(source.name)
      return synced
    } catch (error) {
      // A SourceError says what is wrong. Anything else may be the end of the thread: the quarantine's error explains it.
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
