import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { CatalogRegistryConfig } from '../../config/gateway.ts'
import { secretFile } from '../../config/secret-file.ts'
import type { CatalogGateStatus } from '../../config/status.ts'
import { createGuardedFetch, type GuardedFetch } from '../../net/guarded-fetch.ts'
import { backoffDelay } from '../../retry/backoff.ts'
import { runInSlices } from '../limits/slices.ts'
import { parseObject } from '../mcp/json.ts'
import type { Snapshot } from './decision.ts'
import { type GatePage, type KnownClaims, parseGatePage } from './rows.ts'
import { joinPages, type SnapshotFile } from './snapshot-file.ts'

interface RegistryPollOptions {
  readonly config: CatalogRegistryConfig
  readonly fileAt: (path: string) => string
  readonly file: SnapshotFile
  /** The time in milliseconds after which a snapshot without confirmation is no longer used. */
  readonly maxStaleMs: number
  /** True if the last snapshot is not used while the registry is unreachable. */
  readonly closesAtOnce: boolean
  readonly mostBytes: number
  readonly log: Logger
  /** Called when the usable rows or the state of the registry have changed. */
  onChange(): void
}

/** The largest page in bytes, with its envelope. */
const PAGE_BYTES = 8 * 1024 * 1024 + 256 * 1024
/** The time for which the registry waits for a change before it answers, in seconds. */
const WAIT_S = 30
/** The same time if an unreachable registry must be noticed soon. */
const SHORT_WAIT_S = 5
const ANSWER_MS = 10_000
/** The least time between two requests, for registries that do not wait. */
const PAUSE_MS = 1_000
/** The least time after a change, because several changes often occur together. */
const CHANGE_PAUSE_MS = 200
const BACKOFF = { first: 250, longest: 2_000 }
/**
 * The number of times that reading starts again if the rows change between pages. After that the newest rows of each
 * page are used.
 */
const RESTARTS = 5
/** The time after which an unreachable registry is reported, in milliseconds. */
const NOTICED_MS = 5_000

/** An invalid answer. The message is for the log and the status. */
class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

interface Read {
  readonly text: string
  readonly page: GatePage
}

interface Answer {
  readonly texts: readonly string[]
  readonly snapshot: Snapshot
}

interface Question {
  readonly cursor?: string
  readonly revision?: string | undefined
  readonly known: KnownClaims
}

/** Polls one registry for its rows and keeps the last answer. */
export class RegistryPoll {
  readonly name: string
  #snapshot: Snapshot | undefined
  #confirmedAt = Number.NEGATIVE_INFINITY
  /** The `performance.now()` of the first failure after the last answer. */
  #failingSince: number | undefined
  #hasAnswered = false
  problem: string | undefined
  readonly #options: RegistryPollOptions
  readonly #fetch: GuardedFetch
  readonly #token: (() => string) | undefined
  readonly #closing = new AbortController()
  readonly #running: Promise<void>
  /** Resolves after the first attempt. */
  readonly tried = Promise.withResolvers<void>()
  isTried = false
  #staleTimer: NodeJS.Timeout | undefined
  #noticeTimer: NodeJS.Timeout | undefined
  #canKeep = true

  constructor(options: RegistryPollOptions) {
    const { config, fileAt, closesAtOnce } = options
    this.#options = options
    this.name = config.name
    this.#token = config.tokenFile === undefined ? undefined : secretFile(fileAt(config.tokenFile))
    this.#fetch = createGuardedFetch({
      caBundleFile: config.caBundleFile && fileAt(config.caBundleFile),
      allowPrivateIP: true,
      connections: 2,
      maxBytes: PAGE_BYTES,
      timeoutMs: (closesAtOnce ? SHORT_WAIT_S : WAIT_S) * 1000 + ANSWER_MS,
    })
    this.#running = this.#run()
  }

  /** The rows that may be used now; undefined if there are none. */
  get usable(): Snapshot | undefined {
    const { closesAtOnce } = this.#options
    if (closesAtOnce && (!this.#hasAnswered || this.#failingSince !== undefined)) return undefined
    return this.#isStale ? undefined : this.#snapshot
  }

  /** `waiting` before the first answer; then `current` or `unavailable`; `stale` if the last answer is too old. */
  get state(): CatalogGateStatus['registries'][number]['state'] {
    if (!this.isTried) return 'waiting'
    if (this.#snapshot !== undefined && this.#isStale) return 'stale'
    const isAway = this.#failingSince !== undefined && performance.now() - this.#failingSince >= NOTICED_MS
    return isAway || this.usable === undefined ? 'unavailable' : 'current'
  }

  /** The time since the registry last confirmed its rows, in seconds; undefined if it never has. */
  get ageSeconds(): number | undefined {
    return this.#snapshot === undefined ? undefined : (performance.now() - this.#confirmedAt) / 1000
  }

  get #isStale(): boolean {
    return performance.now() - this.#confirmedAt > this.#options.maxStaleMs
  }

  async #run(): Promise<void> {
    await this.#readKept()
    for (let failures = 0; !this.#closing.signal.aborted; ) {
      const began = performance.now()
      try {
        const isNew = await this.#poll()
        failures = 0
        await this.#sleep((isNew ? CHANGE_PAUSE_MS : PAUSE_MS) - (performance.now() - began))
      } catch (error) {
        if (this.#closing.signal.aborted) return
        await this.#sleep(this.#pauseAfter(error, failures++))
      }
    }
  }

  /** Starts with the snapshot on disk. */
  async #readKept(): Promise<void> {
    const kept = await this.#options.file.read(new Map())
    if (kept === undefined || this.#closing.signal.aborted) return
    this.#snapshot = kept.snapshot
    this.#confirm(performance.now() - (Date.now() - kept.confirmedAt))
    this.#options.onChange()
  }

  /**
   * Handles a failure and returns the pause until the next attempt in milliseconds. `failures`: the failures in a row
   * before it.
   */
  #pauseAfter(error: unknown, failures: number): number {
    // A kept-alive connection may have been closed meanwhile, which is not a failure of the registry.
    const mayBeOurs = failures === 0 && this.#hasAnswered && !(error instanceof NoAnswer)
    if (mayBeOurs) return 0
    this.#failed(error)
    return backoffDelay(failures, BACKOFF)
  }

  async #sleep(ms: number): Promise<void> {
    if (ms > 0)
      await delay(ms, undefined, { signal: this.#closing.signal }).catch(() => {
        // The gate was closed, so the loop ends.
      })
  }

  /** Polls once. Returns whether the rows have changed. */
  async #poll(): Promise<boolean> {
    const known = this.#snapshot?.revision
    const answer = await this.#answer(known)
    if (this.#closing.signal.aborted) return false
    const isNew = answer !== undefined
    if (isNew) this.#snapshot = answer.snapshot
    const wasUsable = this.#hasAnswered && this.#failingSince === undefined && !this.#isStale
    this.#confirm(performance.now())
    this.#hasAnswered = true
    this.#failingSince = undefined
    clearTimeout(this.#noticeTimer)
    if (this.problem !== undefined) this.#options.log.info({ registry: this.name }, 'the registry answers again')
    this.problem = undefined
    this.#wasTried()
    if (isNew || !wasUsable) this.#options.onChange()
    await this.#keep(answer?.texts)
    return isNew
  }

  #confirm(at: number): void {
    this.#confirmedAt = at
    clearTimeout(this.#staleTimer)
    const left = at + this.#options.maxStaleMs - performance.now()
    this.#staleTimer = setTimeout(() => this.#options.onChange(), Math.max(1, left + 1)).unref()
  }

  #wasTried(): void {
    this.isTried = true
    this.tried.resolve()
  }

  #failed(error: unknown): void {
    const { log, onChange } = this.#options
    const isFirst = this.#failingSince === undefined
    const before = this.problem
    this.#failingSince ??= performance.now()
    this.problem = error instanceof NoAnswer ? error.message : findCause(error)
    this.#wasTried()
    if (before !== this.problem) log.warn({ registry: this.name, err: error }, 'the registry does not list its entries')
    if (isFirst) this.#noticeTimer = setTimeout(onChange, NOTICED_MS + 1).unref()
    if (isFirst || before !== this.problem) onChange()
  }

  /** Stores the answer on disk, if possible. */
  async #keep(texts: readonly string[] | undefined): Promise<void> {
    const { file, log } = this.#options
    try {
      if (texts === undefined) await file.confirm(Date.now())
      else await file.write(texts, Date.now())
      this.#canKeep = true
    } catch (error) {
      if (this.#canKeep) log.warn({ registry: this.name, err: error }, 'the catalog can’t be written to disk')
      this.#canKeep = false
    }
  }

  /** Reads all pages; undefined if nothing has changed. */
  async #answer(revision: string | undefined): Promise<Answer | undefined> {
    for (let left = RESTARTS; ; left--) {
      const known: KnownClaims = new Map()
      const first = await this.#ask({ revision, known })
      if (first === undefined) return undefined
      const others = await this.#pagesBehind(first, known, left > 0)
      if (others === undefined) continue
      const pages = [first, ...others]
      return {
        texts: pages.map(({ text }) => text),
        snapshot: joinPages([first.page, ...others.map(({ page }) => page)]),
      }
    }
  }

  /** Reads the pages after the first; undefined if they have different revisions although they must not. */
  async #pagesBehind(first: Read, known: KnownClaims, isStrict: boolean): Promise<readonly Read[] | undefined> {
    const pages: Read[] = []
    const cursors = new Set<string>()
    let bytes = first.text.length
    for (let cursor = first.page.nextCursor; cursor !== undefined; ) {
      if (cursors.has(cursor)) throw new NoAnswer('its pages lead in a circle')
      cursors.add(cursor)
      const next = (await this.#ask({ cursor, known })) as Read
      bytes += next.text.length
      if (bytes > this.#options.mostBytes) throw new NoAnswer(`it has more than ${this.#options.mostBytes} bytes`)
      if (isStrict && next.page.revision !== first.page.revision) return undefined
      pages.push(next)
      cursor = next.page.nextCursor
    }
    return pages
  }

  /** Requests a page; undefined if the rows still have this `revision`. */
  async #ask({ cursor, revision, known }: Question): Promise<Read | undefined> {
    const { config, closesAtOnce } = this.#options
    const url = new URL(`${config.url.replace(/\/+$/, '')}/v1/registries/${encodeURIComponent(config.registry)}/gate`)
    if (cursor !== undefined) url.searchParams.set('cursor', cursor)
    // Waiting for a change is possible only with a known revision.
    if (revision !== undefined) url.searchParams.set('wait', `${closesAtOnce ? SHORT_WAIT_S : WAIT_S}s`)
    const token = this.#token?.()
    const { status, text } = await this.#fetch(url.href, {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(revision !== undefined && { 'if-none-match': `"${revision}"` }),
    })
    if (status === 304 && revision !== undefined) return undefined
    if (status !== 200) throw new NoAnswer(`it answers ${status}${readErrorCode(text)}`)
    try {
      return { text, page: await runInSlices(parseGatePage(text, known)) }
    } catch (error) {
      throw new NoAnswer(`its answer can’t be read: ${(error as Error).message}`)
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    clearTimeout(this.#staleTimer)
    clearTimeout(this.#noticeTimer)
    await this.#fetch.close()
    await this.#running
  }
}

/** Returns the stable code in an error body, if there is one. */
function readErrorCode(text: string): string {
  const code = parseObject(text)?.['error']
  return typeof code === 'string' && /^[a-z_]{1,64}$/.test(code) ? ` (${code})` : ''
}

function findCause(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return code === undefined ? message : `the registry can’t be reached (${code})`
}
