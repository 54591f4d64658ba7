/** Facts that a session gained after it was opened, by name: log level, sessions with backends, stream's replica. */
export type Notes = Readonly<Record<string, string>>

/** The data of a legacy client's session outside of this process: plain values, so that any store can hold them. */
export interface SessionRecord {
  readonly id: string
  /** The owner: issuer and subject, never a token. */
  readonly binding: string
  readonly revision: string
  readonly capabilities: string
  readonly notes?: Notes
}

/**
 * The store of sessions. An entry expires if it is not touched. A store in memory returns no promise. An unavailable
 * store throws `unavailable`, or rejects with it.
 */
export interface SessionStore {
  readonly provider: 'memory' | 'redis'
  add(record: SessionRecord): void | Promise<void>
  find(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  /** Writes a note or, with undefined, removes it. A session that has ended is not restored. */
  note(id: string, name: string, value: string | undefined): void | Promise<void>
  /**
   * Writes a note if there is none, or if it is `expected`. Returns its value afterwards; undefined if the session has
   * ended.
   */
  claim(id: string, name: string, expected: string | undefined, value: string): Claimed | Promise<Claimed>
  remove(id: string): void | Promise<void>
  /** Drops the cache of a session that was found but is not served here. Other replicas keep it. */
  letGo(id: string): void
  /**
   * Notified of each session that is no longer here. `expired`: its time was over, so nobody else ends what belongs to
   * it.
   */
  onGone: ((id: string, expired: boolean) => void) | undefined
  readonly size: number
  close(): void
}

type Claimed = string | undefined
