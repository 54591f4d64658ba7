import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import type { AuditSettings } from '../config/audit/audit.ts'
import type { AuditCounts, AuditWriter } from './audit-writer.ts'
import type { AuditEvent, Auditing, AuditLog } from './event.ts'

/** The time for which a process that stops, or switches to another log, waits for queued lines. */
const LAST_LINES_MS = 2_000

/** The block `audit` of a configuration, and its context. */
interface AuditConfig {
  readonly audit: AuditSettings | undefined
  readonly directory: string
  readonly workload: string
}

interface AuditStatus {
  readonly written: number
  readonly lost: number
  /** The reason why lines can't be written at the moment. */
  readonly problem: string | null
}

/** The audit log of the configuration in force, which may change. Its code is loaded on first use. */
export class Audit implements Auditing {
  /** The log that receives events now; undefined while auditing is off. */
  log: AuditLog | undefined
  readonly #log: Logger
  readonly #counts: AuditCounts = { written: 0, lost: 0 }
  #writer: AuditWriter | undefined
  #inForce: AuditConfig | undefined
  #applied: Promise<void> = Promise.resolve()

  constructor(log: Logger) {
    this.#log = log
  }

  /** Applies a configuration after the earlier ones. Never rejects. */
  apply(config: AuditConfig): Promise<void> {
    this.#applied = this.#applied
      .then(() => this.#replace(config))
      .catch((error: unknown) => this.#log.error({ err: error }, 'the audit log can’t be applied'))
    return this.#applied
  }

  async #replace(config: AuditConfig): Promise<void> {
    if (isDeepStrictEqual(config, this.#inForce)) return
    const { audit, directory, workload } = config
    const before = this.#writer
    if (audit?.enabled === true) {
      const { AuditLines } = await import('./lines.ts')
      const writer = await this.#writerOf(audit.logFile && resolve(directory, audit.logFile), workload)
      this.#writer = writer
      this.log = new AuditLines(audit, workload, (line) => writer.take(line))
    } else {
      this.#writer = undefined
      this.log = undefined
    }
    this.#inForce = config
    before
      ?.close(LAST_LINES_MS)
      .catch((error: unknown) => this.#log.debug({ err: error }, 'closing the earlier audit log failed'))
  }

  async #writerOf(file: string | undefined, component: string): Promise<AuditWriter> {
    const { AuditWriter, FileTarget, StdoutTarget } = await import('./audit-writer.ts')
    const lossLine = (count: number) =>
      `${JSON.stringify({ level: 'audit', time: new Date().toISOString(), type: 'audit_events_lost', outcome: 'failure', component, target: { count } })}\n`
    return new AuditWriter({
      target: file === undefined ? new StdoutTarget() : new FileTarget(file),
      name: file === undefined ? 'standard output' : file,
      log: this.#log,
      counts: this.#counts,
      lossLine,
    })
  }

  tell(event: AuditEvent): void {
    this.log?.write(event)
  }

  /** Records that the configuration with this hash is in force. Without a hash, that a new one was refused. */
  reloaded(hash: string | undefined): void {
    const isRefused = hash === undefined
    this.tell({
      type: 'config_reload',
      outcome: isRefused ? 'failure' : 'success',
      error: isRefused ? 'config_refused' : undefined,
      target: { config: hash },
    })
  }

  /** The reason why events can't be written at the moment; undefined while they can, or while auditing is off. */
  get problem(): string | undefined {
    return this.#writer?.problem
  }

  status(): { readonly audit?: AuditStatus } {
    return this.#writer === undefined ? {} : { audit: { ...this.#counts, problem: this.#writer.problem ?? null } }
  }

  /** Writes the queued lines, as far as time allows. */
  async close(): Promise<void> {
    await this.#applied
    this.log = undefined
    await this.#writer?.close(LAST_LINES_MS)
  }
}
