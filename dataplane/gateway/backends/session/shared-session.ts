import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import { isObject } from '../../../../crds/settings/json.ts'
import { parseObject } from '../../mcp/json.ts'
import type { TakeAnswer } from './late-answers.ts'

/**
 * Matches visible ASCII (2025-11-25, session management), and the spaces that some servers use in addition. Some
 * servers put a signed state into the id.
 */
export const SESSION_ID = /^[\x20-\x7e]{1,4096}$/
const REVISION = /^\d{4}-\d\d-\d\d$/

/** The backend's answer when a session was opened. */
export interface Opened {
  /** Absent if the backend keeps no sessions. Some servers change the id with each answer. */
  sessionId: string | undefined
  readonly revision: string
  readonly capabilities: Readonly<Record<string, unknown>>
}

/**
 * Describes a session with the backend at this URL, as text for other replicas. It contains a digest of the URL,
 * because the URL itself may contain a key.
 */
export const sharedSessionText = (opened: Opened, url: string): string =>
  JSON.stringify({ ...opened, at: digestUrl(url) })

/**
 * Parses a session that another replica has described. Returns undefined if the backend now has another URL, which does
 * not know that session, or if a different version of the gateway wrote the text.
 */
export function parseSharedSession(text: string, url: string): Opened | undefined {
  const kept = parseObject(text)
  if (kept === undefined || kept['at'] !== digestUrl(url)) return undefined
  const { sessionId, revision, capabilities } = kept
  if (typeof revision !== 'string' || !REVISION.test(revision) || !isObject(capabilities)) return undefined
  if (sessionId !== undefined && !(typeof sessionId === 'string' && SESSION_ID.test(sessionId))) return undefined
  return { sessionId, revision, capabilities }
}

const digestUrl = (url: string): string => hash('sha256', url, 'base64url')

/**
 * Coordinates the single stream of a session that several replicas share, because many servers give a session only one.
 */
export interface StreamKeeper {
  /** Tells whether another replica has the stream open, as far as this replica knows. */
  isStreamElsewhere(): boolean
  /**
   * Claims the stream for this replica. Resolves to false if another replica has it. `isForced`: the replicas that are
   * known to have it don't answer. Undefined if no other replica shares the session.
   */
  claimStream(isForced: boolean): Promise<boolean> | undefined
  /**
   * Waits for the answer to a request (`id`: JSON text) at the replica that has the stream open. `take` is called later
   * with the answer, or with undefined if none can come. Returns the function that ends the wait; undefined if no such
   * replica is known.
   */
  awaitElsewhere(id: string, take: TakeAnswer): (() => void) | undefined
}

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

  /** Does the same, but only for a session that is not known here yet. */
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

  /** Runs one claim at a time, because each claim names the text of the previous one. */
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

  /**
   * Records that the backend has lost the known session, so that it is not taken over from other replicas again. Returns
   * the function that undoes that.
   */
  lose(): () => void {
    const before = this.#lost
    this.#lost = this.#kept
    return () => {
      this.#lost = before
    }
  }
}
