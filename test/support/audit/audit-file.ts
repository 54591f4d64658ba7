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

/** The file that an audit log is written to, in a folder of its own. */
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

  /** All of it; empty where there is none yet. */
  get text(): string {
    return existsSync(this.path) ? readFileSync(this.path, 'utf8') : ''
  }

  get all(): readonly Audited[] {
    return this.text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  }

  /** The events since this was asked last, once there are so many of them. */
  async next(count: number): Promise<readonly Audited[]> {
    await eventually(`${count} events`, () => this.all.length >= this.#passed + count)
    const events = this.all.slice(this.#passed)
    this.#passed += events.length
    return events
  }

  /** Passes over what is there. */
  skip(): void {
    this.#passed = this.all.length
  }

  /** No secret may be in it: that is looked at now. */
  remove(): Promise<void> {
    outputWatch('audit')(this.text)
    return rm(this.directory, { recursive: true, force: true })
  }
}
