import type { Logger } from 'pino'
import { type Opened, parseSharedSession, sharedSessionText } from './opened-session.ts'
import type { StreamKeeper } from './session-inbox.ts'

/**
 * Shares a session with a backend between the replicas that serve the client's session. The text describes the session
 * that was opened. `claim` returns the text in force, or undefined if the client's session has ended.
 */
export interface SessionKeeper extends StreamKeeper {
  recall(): string | undefined
  claim(expected: string | undefined, value: string): string | undefined | Promise<string | undefined>
}

/** Agrees with other replicas on a session with a backend. Without a keeper the session is this replica's own. */
export class SharedSession {
  readonly #keeper: SessionKeeper | undefined
  readonly #url: URL
  readonly #log: Pick<Logger, 'debug'>
  #isTelling = false
  /** The text of the open session, and that of the last session that the backend has lost. */
  #kept: string | undefined
  #lost: string | undefined

  constructor(keeper: SessionKeeper | undefined, { url, log }: { readonly url: URL; readonly log: Logger }) {
    this.#keeper = keeper
    this.#url = url
    this.#log = log
  }

  /** The text in force, for `settle`. */
  get remembered(): string | undefined {
    return this.#keeper?.recall()
  }

  /** Returns the session that another replica has opened, unless it is the one that the backend has lost. */
  found(): Opened | undefined {
    const text = this.remembered
    return text === undefined || text === this.#lost ? undefined : this.#taken(text)
  }

  /** Does the same, unless it is the one that is known here. */
  newer(): Opened | undefined {
    return this.remembered === this.#kept ? undefined : this.found()
  }

  #taken(text: string): Opened | undefined {
    this.#kept = text
    return parseSharedSession(text, this.#url.href)
  }

  /**
   * Decides which session is used if replicas have opened several for the same client. `remembered`: the text when this
   * one began to be opened. Returns undefined if the client's session has ended.
   */
  async settle(opened: Opened, remembered: string | undefined): Promise<Opened | undefined> {
    if (this.#keeper === undefined) return opened
    const ours = sharedSessionText(opened, this.#url.href)
    const inForce = await this.#keeper.claim(remembered, ours)
    this.#kept = ours
    if (inForce === undefined) return undefined
    return inForce === ours ? opened : (this.#taken(inForce) ?? opened)
  }

  /** Tells the other replicas the newest id of the open session. */
  tell(opened: Opened): void {
    if (this.#keeper !== undefined)
      this.#tell(opened, this.#keeper).catch((error) =>
        this.#log.debug({ err: error }, 'the new id of a session is not shared'),
      )
  }

  /** One claim runs at a time, since each names the text of the one before. */
  async #tell(opened: Opened, keeper: SessionKeeper): Promise<void> {
    if (this.#isTelling) return
    this.#isTelling = true
    try {
      let text = sharedSessionText(opened, this.#url.href)
      while (text !== this.#kept && (await keeper.claim(this.#kept, text)) === text) {
        this.#kept = text
        text = sharedSessionText(opened, this.#url.href)
      }
    } finally {
      this.#isTelling = false
    }
  }

  /** Takes no session from other replicas that is the one known here: the backend has lost it. Returns how to undo that. */
  lose(): () => void {
    const before = this.#lost
    this.#lost = this.#kept
    return () => {
      this.#lost = before
    }
  }
}
