import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { outputWatch } from '../../secrets/watch.ts'
import { eventually } from '../eventually.ts'

/** A line of an audit log. */
export interface Audited {
  readonly level: string
  readonly time: string
  readonly audit_id: string
  readonly type: string
  readonly outcome: string
  readonly error?: string
  readonly component: string
  readonly source?: { readonly address?: string; readonly user_agent?: string }
  readonly subject?: {
    readonly issuer?: string
    readonly id?: string
    readonly name?: string
    readonly client?: string
    readonly delegation?: readonly { readonly issuer?: string; readonly id?: string }[]
  }
  readonly client?: { readonly id?: string; readonly name?: string }
  readonly session?: string
  readonly target?: Readonly<Record<string, string | number>>
  readonly request_id?: string
  readonly trace_id?: string
  readonly duration_ms?: number
  readonly data?: {
    readonly request?: string
    readonly request_cut?: boolean
    readonly response?: string
    readonly response_cut?: boolean
  }
}

/** An audit log in its own temporary folder. */
export class AuditFile {
  readonly path: string
  readonly directory: string
  #passed = 0

  private constructor(directory: string) {
    this.directory = directory
    this.path = join(directory, 'audit.log')
  }

  static async create(): Promise<AuditFile> {
    return new AuditFile(await mkdtemp(join(tmpdir(), 'portico-audit-')))
  }

  /** The whole text; empty if there is no file yet. */
  get text(): string {
    return existsSync(this.path) ? readFileSync(this.path, 'utf8') : ''
  }

  get all(): readonly Audited[] {
    return this.text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  }

  /** Waits for `count` more events, and returns all events since the last call. */
  async next(count: number): Promise<readonly Audited[]> {
    await eventually(`${count} events`, () => this.all.length >= this.#passed + count)
    const events = this.all.slice(this.#passed)
    this.#passed += events.length
    return events
  }

  /** Skips the events that are already in the file. */
  skip(): void {
    this.#passed = this.all.length
  }

  /** Removes the file after it has been searched for secrets. */
  remove(): Promise<void> {
    outputWatch('audit')(this.text)
    return rm(this.directory, { recursive: true, force: true })
  }
}
