import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import { usageDefaults } from '../../../crds/settings/gateway/defaults.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Caller } from '../../identity/caller.ts'
import {
  addTo,
  type Counted,
  DAY_MS,
  estimateBytes,
  formatDay,
  formatKey,
  MOST_ROWS,
  OTHER,
  type RedisRows,
  type Rows,
} from './rows.ts'

type UsageConfig = NonNullable<GatewayConfig['usage']>

interface UsageOptions {
  readonly log: Logger
  /** Namespace and name of the workload. Digests of the same person differ between workloads. */
  readonly workload: string
  readonly mostBytes: number
  readonly now?: () => number
}

/** The time after which counted calls are written to Redis. */
const WRITE_AFTER_MS = 2_000
const DIGEST_LENGTH = 16

/** Counts tool calls by UTC day. Calls beyond the limit of rows or bytes count in one row without names. */
export class Usage {
  readonly #options: UsageOptions
  readonly #days = new Map<string, Rows>()
  people: NonNullable<UsageConfig['people']> = usageDefaults.people
  #keptDays: number = usageDefaults.days
  #redis: RedisRows | undefined
  #bytes = 0
  #since: string
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined
  /** The reason why counts are not written; undefined if they are. */
  problem: string | undefined

  constructor(options: UsageOptions) {
    this.#options = options
    this.#since = formatDay(this.#now())
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }

  apply(config: UsageConfig): void {
    const { people, days } = { ...usageDefaults, ...config }
    this.people = people
    this.#keptDays = days
    this.#forgetOld()
  }

  /** Sets the store that replicas share; undefined: counts stay in memory. */
  follow(redis: RedisRows | undefined): void {
    this.#redis = redis
    this.problem = undefined
    if (redis !== undefined && this.#days.size > 0) this.#writeSoon()
  }

  get store(): 'memory' | 'redis' {
    return this.#redis === undefined ? 'memory' : 'redis'
  }

  /** The first day for which there may be counts. In memory it is not before the day of the start. */
  get since(): string {
    const first = this.#firstDay()
    return this.#redis !== undefined || this.#since < first ? first : this.#since
  }

  #firstDay(): string {
    return formatDay(this.#now() - (this.#keptDays - 1) * DAY_MS)
  }

  count(caller: Caller, counted: Omit<Counted, 'person'>, ms: number): void {
    const day = formatDay(this.#now())
    let rows = this.#days.get(day)
    if (rows === undefined) {
      this.#days.set(day, (rows = new Map()))
      this.#forgetOld()
    }
    const key = formatKey({ ...counted, person: this.#identifyPerson(caller) })
    const isNew = !rows.has(key)
    const isFull = rows.size >= MOST_ROWS || this.#bytes + estimateBytes(key) > this.#options.mostBytes
    if (isNew && !isFull) this.#bytes += estimateBytes(key)
    addTo(rows, isNew && isFull ? OTHER : key, { calls: 1, ms })
    if (this.#redis !== undefined) this.#writeSoon()
  }

  #identifyPerson(caller: Caller): string {
    if (this.people === 'disabled' || caller.kind === 'anonymous') return ''
    if (this.people === 'name') return caller.subject
    const text = `${this.#options.workload}\0${caller.issuer}\0${caller.subject}`
    return hash('sha256', text, 'hex').slice(0, DIGEST_LENGTH)
  }

  #forgetOld(): void {
    const first = this.#firstDay()
    for (const day of this.#days.keys()) if (day < first) this.#days.delete(day)
    this.#measure()
  }

  #measure(): void {
    let bytes = 0
    for (const rows of this.#days.values()) for (const key of rows.keys()) bytes += estimateBytes(key)
    this.#bytes = bytes
  }

  #writeSoon(): void {
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#write().catch((error: unknown) => this.#options.log.debug({ err: error }, 'usage could not be written'))
    }, WRITE_AFTER_MS).unref()
  }

  /** Writes the counts. Never rejects: while Redis is unavailable, counts stay in memory and are written later. */
  #write(): Promise<void> {
    this.#writing ??= this.#writeDays().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  async #writeDays(): Promise<void> {
    const redis = this.#redis
    if (redis === undefined) return
    try {
      for (const [day, rows] of this.#days) {
        await redis.add(day, rows, this.#keptDays)
        if (rows.size === 0) this.#days.delete(day)
      }
      this.problem = undefined
    } catch (error) {
      if (this.problem === undefined) this.#options.log.warn({ err: error }, 'usage can’t be written to Redis')
      this.problem = 'Redis can’t be reached: later counts are not shown'
      this.#writeSoon()
    }
    this.#measure()
  }

  /** Returns the stored rows from `from` to `to`. Rejects if Redis is unavailable. */
  async read(from: string, to: string): Promise<readonly Rows[]> {
    const first = this.#firstDay()
    const last = formatDay(this.#now())
    if (this.#redis === undefined)
      return [...this.#days].flatMap(([day, rows]) => (day >= from && day >= first && day <= to ? [rows] : []))
    await this.#write()
    const found: Rows[] = []
    let at = Date.parse(from > first ? from : first)
    for (; formatDay(at) <= to && formatDay(at) <= last; at += DAY_MS) found.push(await this.#redis.read(formatDay(at)))
    return found
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#write()
    clearTimeout(this.#timer)
  }
}
