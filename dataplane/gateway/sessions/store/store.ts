/** What became known of a session after its opening, by name: its log level, its sessions with backends, where it listens. */
export type Notes = Readonly<Record<string, string>>

/** What makes a session of a legacy client, apart from what lives in this process: plain values, so that any store will do. */
export interface SessionRecord {
  readonly id: string
  /** Whose it is: issuer and subject, never a token. */
  readonly binding: string
  readonly revision: string
  /** JSON text of the capabilities that the client declared. */
  readonly capabilities: string
  /** Absent: there are none. No value is empty. */
  readonly notes?: Notes
}

/**
 * Where sessions are known. An entry ends when it has not been touched for the store's time to live. A store that
 * answers from memory answers without a promise, so that a request need not wait for one. One that is away throws
 * `unavailable`, or rejects with it.
 */
export interface SessionStore {
  readonly provider: 'memory' | 'redis'
  add(record: SessionRecord): void | Promise<void>
  /** The session, which counts as a touch. */
  find(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  /** Writes a note or, with undefined, takes it away. A session that has ended stays so. */
  note(id: string, name: string, value: string | undefined): void | Promise<void>
  /**
   * Writes a note where there is none of this name, or where it says what is `expected`. Gives what it says then;
   * undefined where the session has ended.
   */
  claim(id: string, name: string, expected: string | undefined, value: string): Claimed | Promise<Claimed>
  remove(id: string): void | Promise<void>
  /** A session that was found is not served here: nothing of it need be kept that other replicas keep. */
  letGo(id: string): void
  /**
   * Told of each session that is no longer here: `expired` where its time was over, so that nobody else ends what
   * hangs on it; otherwise another replica has ended it, or serves it now.
   */
  onGone: ((id: string, expired: boolean) => void) | undefined
  /** Sessions that this process knows. */
  readonly size: number
  close(): void
}

type Claimed = string | undefined
