/** Facts that a session gained after it was opened, by name: log level, sessions with backends, stream's replica. */
export type Notes = Readonly<Record<string, string>>

/** The data of a legacy client's session outside of this process: plain values, so that any store can hold them. */
export interface SessionRecord {
  readonly id: string
  /** The owner: issuer and subject, never a token. */
  readonly binding: string
  readonly revision: string
  /** JSON text of the capabilities that the client declared. */
  readonly capabilities: string
  /** The notes, none of which is empty. Absent: there are none. */
  readonly notes?: Notes
}

/**
 * The store of sessions. An entry expires if it has not been touched for the store's time to live. A store that answers
 * from memory returns no promise, so that a request need not wait. An unavailable store throws `unavailable`, or
 * rejects with it.
 */
export interface SessionStore {
  readonly provider: 'memory' | 'redis'
  add(record: SessionRecord): void | Promise<void>
  /** Returns the session and touches it. */
  find(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  /** Writes a note or, with undefined, removes it. A session that has ended is not restored. */
  note(id: string, name: string, value: string | undefined): void | Promise<void>
  /**
   * Writes a note if there is none of this name, or if its value is `expected`. Returns its value afterwards; undefined
   * if the session has ended.
   */
  claim(id: string, name: string, expected: string | undefined, value: string): Claimed | Promise<Claimed>
  remove(id: string): void | Promise<void>
  /** Drops the cache of a session that was found but is not served here. Other replicas keep it. */
  letGo(id: string): void
  /**
   * Notified of each session that is no longer here. `expired`: its time was over, so nobody else ends what belongs to
   * it; otherwise another replica has ended it, or serves it now.
   */
  onGone: ((id: string, expired: boolean) => void) | undefined
  /** The number of sessions that this process knows. */
  readonly size: number
  close(): void
}

type Claimed = string | undefined
