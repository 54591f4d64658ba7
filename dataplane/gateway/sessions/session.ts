import type { Caller } from '../../identity/caller.ts'
import { Budget, Lease, type Share } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import type { ResourceWatch } from '../backends/session/resource-updates.ts'
import { showsApps } from '../mcp/apps.ts'
import { declaredOf } from '../mcp/client-capabilities.ts'
import type { SessionRecord } from './store/store.ts'

/** The GET stream, on which the gateway sends a client messages that answer none of its requests. */
export interface ClientStream {
  /** Who reads it, or has read it last. */
  readonly caller: Caller
  readonly binding: string
  /** Whether somebody reads it now; else it waits to be resumed. */
  readonly isConnected: boolean
  /** One JSON-RPC message. */
  send(message: string): void
  heartbeat(): void
  end(): void
}

/** Writes what other replicas need to serve a session. */
export interface NoteKeeper {
  note(session: Session, name: string, value: string | undefined): void | Promise<void>
  claim(
    session: Session,
    name: string,
    expected: string | undefined,
    value: string,
  ): string | undefined | Promise<string | undefined>
  /** A session with a backend has been opened here for this one. */
  opened(session: Session, backendSession: BackendSession): void
}

/** What a session costs, and what each session with a backend does that hangs on it (measured). */
const SESSION_BYTES = 1024
const BACKEND_SESSION_BYTES = 1024
/** Of the note of such a session: in the record, and where it is kept. */
const NOTE_COPIES = 2
/** What a watched resource costs beside its URI, of which there are several copies. */
const WATCH_BYTES = 512
const URI_COPIES = 6

const BACKEND_SESSION = 'link:'
const LOG_LEVEL = 'log'
/** Before the URI of a resource that is watched for the client; the note says at which replica. */
export const WATCH = 'watch:'
const MOST_WATCHES = 256
/** Before the backend and the id of a task that the client has begun; the note says when, in milliseconds since 1970, and by which tool. */
const TASK = 'task:'
const MOST_TASKS = 128
const LONGEST_TASK_ID = 512

const taskNote = (backend: string, id: string): string => TASK + JSON.stringify([backend, id])

const NOBODY = new Budget({ total: Number.POSITIVE_INFINITY, share: Number.POSITIVE_INFINITY, reserve: 0 }).shareOf('')

/** A legacy client's session as it lives in this process. */
export class Session {
  /** The newest that is known here. */
  record: SessionRecord
  /** The GET stream, where the client has one open at this replica. */
  stream: ClientStream | undefined
  readonly #keeper: NoteKeeper
  #backendSessions: Map<Backend, BackendSession> | undefined
  /** Bytes that are counted for how those are noted. */
  #sessionNotes: Map<Backend, number> | undefined
  #watches: Map<string, ResourceWatch> | undefined
  #declared: string | undefined
  #showsApps: boolean | undefined
  /** Tasks that were begun here: their notes may be on their way still. */
  readonly #begun = new Map<string, string>()
  readonly #share: Share | undefined
  #lease: Lease | undefined

  /** Counted in the caller's `share`. Throws where that has too much. */
  constructor(record: SessionRecord, keeper: NoteKeeper, share?: Share) {
    this.record = record
    this.#keeper = keeper
    this.#share = share
    this.#lease = share === undefined ? undefined : new Lease(share)
    this.#lease?.demand(SESSION_BYTES + record.capabilities.length)
  }

  /** Takes so many bytes of the caller's share for a while. Throws where that is too much. */
  lease(bytes: number): Lease {
    const lease = new Lease(this.#share ?? NOBODY)
    lease.demand(bytes)
    return lease
  }

  /** Holds so many bytes more for as long as the session lives. */
  #hold(bytes: number): void {
    this.#lease?.demand(this.#lease.bytes + bytes)
  }

  /** What was noted under this name, at whichever replica. */
  noted(name: string): string | undefined {
    return this.record.notes?.[name]
  }

  /** Notes something that any replica needs to serve this session; undefined takes the note away. */
  note(name: string, value: string | undefined): void | Promise<void> {
    return this.#keeper.note(this, name, value)
  }

  /** The capabilities that are declared to backends, as JSON text. */
  get declared(): string {
    this.#declared ??= declaredOf(JSON.parse(this.record.capabilities))
    return this.#declared
  }

  /** Whether the client shows apps (MCP Apps). */
  get showsApps(): boolean {
    this.#showsApps ??= showsApps(JSON.parse(this.record.capabilities))
    return this.#showsApps
  }

  /** The lowest level of log messages that the client wants (`logging/setLevel`); undefined where it has not said. */
  get logLevel(): string | undefined {
    return this.noted(LOG_LEVEL)
  }

  setLogLevel(level: string): void | Promise<void> {
    return this.note(LOG_LEVEL, level)
  }

  /** This session's own session with a backend. It is one for all replicas: what one has opened the others go on with. */
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
        },
        this.declared,
      )
      const opened = backendSession
      opened.onOpened = () => this.#keeper.opened(this, opened)
      this.#backendSessions.set(backend, backendSession)
    }
    return backendSession
  }

  /** Counts how a session with a backend is noted. Throws where that is too much. */
  #countNote(backend: Backend, note: string): void {
    this.#sessionNotes ??= new Map()
    const bytes = NOTE_COPIES * note.length
    this.#hold(bytes - (this.#sessionNotes.get(backend) ?? 0))
    this.#sessionNotes.set(backend, bytes)
  }

  /** The sessions with backends that are open here. */
  get openBackendSessions(): readonly BackendSession[] {
    return this.#backendSessions === undefined
      ? []
      : [...this.#backendSessions.values()].filter(({ opened }) => opened !== undefined)
  }

  /** Whether this session's own session with a backend is open, at whichever replica. */
  isOpenWith(backend: Backend): boolean {
    const backendSession = this.#backendSessions?.get(backend)
    return backendSession === undefined
      ? this.noted(BACKEND_SESSION + backend.name) !== undefined
      : backendSession.opened !== undefined
  }

  /** Whether the client is served in a session with the backend. Rejects with a BackendFailure. */
  async isServedIn(backend: Backend): Promise<boolean> {
    const { era } = await backend.detect()
    const { legacySupport } = backend
    if (era === 'legacy' || this.isOpenWith(backend)) return true
    if (legacySupport.isWorthTrying) await legacySupport.open(this.backendSession(backend))
    return legacySupport.isWorthTrying
  }

  /** Watches a resource for the client here, once. Throws where it watches too many. */
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

  /** What is watched of this resource here. */
  watchesOf(uri: string): readonly ResourceWatch[] {
    const watch = this.#watches?.get(uri)
    return watch === undefined ? [] : [watch]
  }

  /** URIs of the resources that some replica watches for this session. */
  get watched(): readonly string[] {
    return this.#notedUnder(WATCH)
  }

  unwatch(uri: string): void {
    const watch = this.#watches?.get(uri)
    if (watch === undefined) return
    watch.stop()
    this.#watches?.delete(uri)
    this.#hold(-WATCH_BYTES - URI_COPIES * uri.length)
  }

  /** Names of backends with which some replica has opened a session of this one. */
  get backendNames(): readonly string[] {
    return this.#notedUnder(BACKEND_SESSION)
  }

  /** Notes a task that the client has begun at a backend by calling `tool`. Of too many the oldest is forgotten. */
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

  /** Whether the client has begun this task, at whichever replica. */
  hasTask(backend: string, id: string): boolean {
    const name = taskNote(backend, id)
    return this.#begun.has(name) || this.noted(name) !== undefined
  }

  /** The name of the tool by whose call the client has begun a task; undefined where that is not known. */
  toolOfTask(backend: string, id: string): string | undefined {
    const name = taskNote(backend, id)
    const note = this.#begun.get(name) ?? this.noted(name)
    return note?.slice(note.indexOf(' ') + 1) || undefined
  }

  /** Whether the client has begun any task at a backend. */
  hasTasksAt(backend: string): boolean {
    const ofBackend = taskNote(backend, '').slice(0, -2)
    const isOf = (name: string) => name.startsWith(ofBackend)
    return [...this.#begun.keys()].some(isOf) || Object.keys(this.record.notes ?? {}).some(isOf)
  }

  /** Writes a note that nobody waits for. */
  #noteAtLeisure(name: string, value: string | undefined): void {
    const note = async () => this.note(name, value)
    note().catch(() => {
      // While the store can't be reached, the note is known to this replica only, or lost.
    })
  }

  #notedUnder(prefix: string): string[] {
    return Object.keys(this.record.notes ?? {}).flatMap((name) =>
      name.startsWith(prefix) ? [name.slice(prefix.length)] : [],
    )
  }

  /** Lets go of what concerns a backend that is gone, and gives the URIs of what was watched there. */
  forget(backend: Backend): readonly string[] {
    if (this.#backendSessions?.delete(backend) === true)
      this.#hold(-BACKEND_SESSION_BYTES - (this.#sessionNotes?.get(backend) ?? 0))
    this.#sessionNotes?.delete(backend)
    const watchedThere = [...(this.#watches ?? [])].flatMap(([uri, { by }]) => (by === backend.watched ? [uri] : []))
    for (const uri of watchedThere) this.unwatch(uri)
    return watchedThere
  }

  /** Ends what lives here. `atBackends`: their sessions end as well; otherwise another replica goes on with them. */
  end(atBackends: boolean): void {
    this.#lease?.release()
    this.#lease = undefined
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
