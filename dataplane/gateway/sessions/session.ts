import { timingSafeEqual } from 'node:crypto'
import { memoize } from '../../../crds/settings/json.ts'
import type { Authenticated, Caller } from '../../identity/caller.ts'
import { Budget, Reservation, type Share } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import type { TakeAnswer } from '../backends/session/late-answers.ts'
import type { ResourceWatch } from '../backends/session/resource-watch.ts'
import { showsApps } from '../mcp/apps.ts'
import { declareCapabilities } from '../mcp/client-capabilities.ts'
import type { SessionRecord } from './store/store.ts'

/** The GET stream, on which the gateway sends a client messages that answer none of its requests. */
export interface ClientStream {
  /** The caller that reads it, or has read it last. */
  readonly caller: Caller
  readonly binding: string
  /** True if a client reads it now; otherwise it waits to be resumed. */
  readonly isConnected: boolean
  send(message: string): void
  heartbeat(): void
  end(): void
}

/** Writes the notes that other replicas need to serve a session. */
export interface NoteKeeper {
  /** Finds the streams of a session's sessions with backends. */
  readonly sharedStreams: {
    isElsewhere(session: Session): boolean
    claim(session: Session, isForced: boolean): Promise<boolean> | undefined
    await(session: Session, backend: Backend, id: string, take: TakeAnswer): (() => void) | undefined
  }
  note(session: Session, name: string, value: string | undefined): void | Promise<void>
  /** Writes a note if there is none, or if it is `expected`. Returns its value afterwards. */
  claim(
    session: Session,
    name: string,
    expected: string | undefined,
    value: string,
  ): string | undefined | Promise<string | undefined>
  opened(session: Session, backendSession: BackendSession): void
}

/** The measured memory of a session, and of each of its backend sessions with everything that belongs to it. */
const SESSION_BYTES = 1024
const BACKEND_SESSION_BYTES = 1024
/** The number of copies of a backend session's note: one in the record, one in the store. */
const NOTE_COPIES = 2
/** The memory of a watched resource in addition to its URI, and the number of copies of the URI. */
const WATCH_BYTES = 512
const URI_COPIES = 6

/** The name of the note that holds the replica at which a client has its GET stream open. */
export const STREAM = 'stream'
/** The name of the note that holds the replica that has first opened the streams of backends, for their answers. */
export const ANSWERS = 'answers'
const BACKEND_SESSION = 'link:'
const LOG_LEVEL = 'log'
/** The prefix of notes on resources that are watched for the client. The URI follows; the note holds the replica. */
export const WATCH = 'watch:'
const MOST_WATCHES = 256
/** The prefix of notes on resources to which the client has subscribed at a backend. Backend and URI follow. */
const SUBSCRIBED = 'subscribed:'
/**
 * The prefix of notes on tasks that the client started. Backend and id follow; the note holds Unix time (ms) and the
 * tool.
 */
const TASK = 'task:'
const MOST_TASKS = 128
const LONGEST_TASK_ID = 512

const taskNote = (backend: string, id: string): string => TASK + JSON.stringify([backend, id])

const NOBODY = new Budget({ total: Number.POSITIVE_INFINITY, share: Number.POSITIVE_INFINITY, reserve: 0 }).shareOf('')

/** A legacy client's session in this process. */
export class Session {
  record: SessionRecord
  /** The GET stream, if the client has one open at this replica. */
  stream: ClientStream | undefined
  readonly #keeper: NoteKeeper
  #backendSessions: Map<Backend, BackendSession> | undefined
  /** The bytes of the notes of backend sessions, as they were counted. */
  #sessionNotes: Map<Backend, number> | undefined
  #watches: Map<string, ResourceWatch> | undefined
  #declared: string | undefined
  #showsApps: boolean | undefined
  /** The tasks that were started here, because their notes may not be written yet. */
  readonly #begun = new Map<string, string>()
  readonly #share: Share | undefined
  #reservation: Reservation | undefined

  /** Creates a session whose memory counts in the caller's `share`. Throws if the share is full. */
  constructor(record: SessionRecord, keeper: NoteKeeper, share?: Share) {
    this.record = record
    this.#keeper = keeper
    this.#share = share
    this.#reservation = share === undefined ? undefined : new Reservation(share)
    this.#reservation?.demand(SESSION_BYTES + record.capabilities.length)
  }

  /** Reserves bytes of the caller's share for a while. Throws if the share is full. */
  reservation(bytes: number): Reservation {
    const reservation = new Reservation(this.#share ?? NOBODY)
    reservation.demand(bytes)
    return reservation
  }

  /** Reserves this number of additional bytes for the lifetime of the session. */
  #hold(bytes: number): void {
    this.#reservation?.demand(this.#reservation.bytes + bytes)
  }

  /** Returns the note of this name, which any replica may have written. */
  noted(name: string): string | undefined {
    return this.record.notes?.[name]
  }

  /** Writes a note, which any replica can read to serve this session; undefined removes it. */
  note(name: string, value: string | undefined): void | Promise<void> {
    return this.#keeper.note(this, name, value)
  }

  /** The capabilities that are declared to backends, as JSON text. */
  get declared(): string {
    this.#declared ??= declareCapabilities(JSON.parse(this.record.capabilities))
    return this.#declared
  }

  /** Tells whether the client shows apps (MCP Apps). */
  get showsApps(): boolean {
    this.#showsApps ??= showsApps(JSON.parse(this.record.capabilities))
    return this.#showsApps
  }

  /** The lowest log level that the client gets (`logging/setLevel`); undefined if it has set none. */
  get logLevel(): string | undefined {
    return this.noted(LOG_LEVEL)
  }

  setLogLevel(level: string): void | Promise<void> {
    return this.note(LOG_LEVEL, level)
  }

  /** Returns this session's own session with a backend. All replicas share it, whichever has opened it. */
  backendSession(backend: Backend): BackendSession {
    this.#backendSessions ??= new Map()
    let backendSession = this.#backendSessions.get(backend)
    if (backendSession === undefined) {
      this.#hold(BACKEND_SESSION_BYTES)
      const name = BACKEND_SESSION + backend.name
      backendSession = backend.newSession(
        {
          recall: () => this.noted(name),
          claim: (expected, value) => {
            this.#countNote(backend, value)
            return this.#keeper.claim(this, name, expected, value)
          },
          isStreamElsewhere: () => this.#keeper.sharedStreams.isElsewhere(this),
          claimStream: (isForced) => this.#keeper.sharedStreams.claim(this, isForced),
          awaitElsewhere: (id, take) => this.#keeper.sharedStreams.await(this, backend, id, take),
        },
        this.declared,
      )
      const opened = backendSession
      opened.onOpened = () => this.#keeper.opened(this, opened)
      this.#backendSessions.set(backend, backendSession)
    }
    return backendSession
  }

  /** Counts the note of a session with a backend. Throws if the share is full. */
  #countNote(backend: Backend, note: string): void {
    this.#sessionNotes ??= new Map()
    const bytes = NOTE_COPIES * note.length
    this.#hold(bytes - (this.#sessionNotes.get(backend) ?? 0))
    this.#sessionNotes.set(backend, bytes)
  }

  get openBackendSessions(): readonly BackendSession[] {
    return this.#backendSessions === undefined
      ? []
      : [...this.#backendSessions.values()].filter(({ opened }) => opened !== undefined)
  }

  /** Tells whether this session's own session with a backend is open, at any replica. */
  isOpenWith(backend: Backend): boolean {
    const backendSession = this.#backendSessions?.get(backend)
    return backendSession === undefined
      ? this.noted(BACKEND_SESSION + backend.name) !== undefined
      : backendSession.opened !== undefined
  }

  /** Tells whether the backend serves this client in a session. Rejects with a BackendFailure. */
  async isServedIn(backend: Backend): Promise<boolean> {
    const { era } = await backend.detect()
    const { legacySupport } = backend
    if (era === 'legacy' || this.isOpenWith(backend)) return true
    if (legacySupport.isWorthTrying) await legacySupport.open(this.backendSession(backend))
    return legacySupport.isWorthTrying
  }

  /** Watches a resource for the client at this replica, once. Throws if it watches too many. */
  watch(uri: string, start: () => ResourceWatch | undefined): void {
    this.#watches ??= new Map()
    if (this.#watches.has(uri)) return
    if (this.watched.length > MOST_WATCHES)
      throw new PublicError('invalid_params', { message: 'Too many resources are subscribed to.' })
    this.#hold(WATCH_BYTES + URI_COPIES * uri.length)
    const watch = start()
    if (watch !== undefined) this.#watches.set(uri, watch)
    else this.#hold(-WATCH_BYTES - URI_COPIES * uri.length)
  }

  watchesOf(uri: string): readonly ResourceWatch[] {
    const watch = this.#watches?.get(uri)
    return watch === undefined ? [] : [watch]
  }

  /** The URIs of the resources that any replica watches for this session. */
  get watched(): readonly string[] {
    return this.#notedUnder(WATCH)
  }

  /**
   * Notes that the client subscribes to a resource, or no longer does, in its session with a backend, because a new
   * backend session needs the subscription again. Beyond the limit nothing is noted.
   */
  noteSubscription(backend: Backend, own: string, isEnd: boolean): void | Promise<void> {
    const name = SUBSCRIBED + JSON.stringify([backend.name, own])
    const isNoted = this.noted(name) !== undefined
    if (isNoted !== isEnd || (!isEnd && this.#notedUnder(SUBSCRIBED).length >= MOST_WATCHES)) return undefined
    this.#hold((isEnd ? -1 : 1) * URI_COPIES * own.length)
    return this.note(name, isEnd ? undefined : '1')
  }

  /** Returns the backend's own URIs of the resources that the client subscribes to in its session with it. */
  subscribedAt(backend: string): readonly string[] {
    return this.#notedUnder(SUBSCRIBED).flatMap((text) => {
      const [name, own] = JSON.parse(text) as [string, string]
      return name === backend ? [own] : []
    })
  }

  unwatch(uri: string): void {
    const watch = this.#watches?.get(uri)
    if (watch === undefined) return
    watch.stop()
    this.#watches?.delete(uri)
    this.#hold(-WATCH_BYTES - URI_COPIES * uri.length)
  }

  /** The names of the backends with which any replica has opened a session for this one. */
  get backendNames(): readonly string[] {
    return this.#notedUnder(BACKEND_SESSION)
  }

  /**
   * Notes a task that the client has started at a backend by calling `tool`. Beyond the limit the oldest task is
   * dropped.
   */
  noteTask(backend: string, id: string, tool: string): void {
    if (id.length > LONGEST_TASK_ID) return
    const name = taskNote(backend, id)
    const note = `${Date.now()} ${tool.length > LONGEST_TASK_ID ? '' : tool}`
    this.#begun.set(name, note)
    const [first] = this.#begun.keys()
    if (this.#begun.size > MOST_TASKS) this.#begun.delete(first as string)
    const noted = this.#notedUnder(TASK).map((task) => TASK + task)
    const begunAt = (task: string) => Number.parseInt(this.noted(task) ?? '', 10)
    noted.sort((a, b) => begunAt(a) - begunAt(b))
    if (noted.length >= MOST_TASKS) this.#noteAtLeisure(noted[0] as string, undefined)
    this.#noteAtLeisure(name, note)
  }

  /** Tells whether the client has started this task, at any replica. */
  hasTask(backend: string, id: string): boolean {
    const name = taskNote(backend, id)
    return this.#begun.has(name) || this.noted(name) !== undefined
  }

  /** Returns the tool whose call has started a task; undefined if unknown. */
  toolOfTask(backend: string, id: string): string | undefined {
    const name = taskNote(backend, id)
    const note = this.#begun.get(name) ?? this.noted(name)
    return note?.slice(note.indexOf(' ') + 1) || undefined
  }

  hasTasksAt(backend: string): boolean {
    const ofBackend = taskNote(backend, '').slice(0, -2)
    const isOf = (name: string) => name.startsWith(ofBackend)
    return [...this.#begun.keys()].some(isOf) || Object.keys(this.record.notes ?? {}).some(isOf)
  }

  /** Writes a note without waiting for it. */
  #noteAtLeisure(name: string, value: string | undefined): void {
    const note = async () => this.note(name, value)
    note().catch(() => {
      // While the store is unreachable, only this replica has the note, or it is lost.
    })
  }

  #notedUnder(prefix: string): string[] {
    return Object.keys(this.record.notes ?? {}).flatMap((name) =>
      name.startsWith(prefix) ? [name.slice(prefix.length)] : [],
    )
  }

  /** Drops the state for a removed backend. Returns the URIs of the resources that were watched there. */
  forget(backend: Backend): readonly string[] {
    if (this.#backendSessions?.delete(backend) === true)
      this.#hold(-BACKEND_SESSION_BYTES - (this.#sessionNotes?.get(backend) ?? 0))
    this.#sessionNotes?.delete(backend)
    const watchedThere = [...(this.#watches ?? [])].flatMap(([uri, { by }]) => (by === backend.watched ? [uri] : []))
    for (const uri of watchedThere) this.unwatch(uri)
    return watchedThere
  }

  /**
   * Ends the session at this replica. `atBackends`: its backend sessions end too; otherwise another replica continues
   * them.
   */
  end(atBackends: boolean): void {
    this.#reservation?.release()
    this.#reservation = undefined
    this.stream?.end()
    for (const watch of this.#watches?.values() ?? []) watch.stop()
    this.#watches = undefined
    for (const [backend, backendSession] of this.#backendSessions ?? []) {
      if (atBackends) backend.closeSession(backendSession)
      else backend.leaveSession(backendSession)
    }
    this.#backendSessions = undefined
  }
}

const ANONYMOUS = 'anonymous'
/** A caller stays one object while its token is known, and maps find the same string faster than an equal new one. */
const findBinding = memoize(({ issuer, subject }: Authenticated) => `${issuer}\0${subject}`)

/**
 * Returns the text that identifies a session's owner: issuer, subject and, if needed, the login, separated by NUL;
 * never the token.
 */
export function bindingOf(caller: Caller, login?: string): string {
  if (caller.kind === 'anonymous') return ANONYMOUS
  return login === undefined ? findBinding(caller) : `${caller.issuer}\0${caller.subject}\0${login}`
}

/** Compares two bindings in constant time. */
export function sameBinding(a: string, b: string): boolean {
  if (a === ANONYMOUS && b === ANONYMOUS) return true
  const left = Buffer.from(a)
  const right = Buffer.from(b)
  return left.length === right.length && timingSafeEqual(left, right)
}
