import type { Logger } from 'pino'
import manifest from '../../package.json' with { type: 'json' }
import { Audit } from '../audit/audit.ts'
import type { GatewayConfig } from '../config/gateway.ts'
import { type Finding, findingLine, type Loaded } from '../config/load.ts'
import type { Measure } from '../telemetry/metrics/metrics.ts'
import type { Observe } from '../telemetry/observe.ts'
import type { ExportTimes } from '../telemetry/options.ts'
import { Telemetry } from '../telemetry/telemetry.ts'

interface ReportingOptions {
  /** How often telemetry is sent. */
  readonly exports?: ExportTimes | undefined
  /** What is measured when metrics are asked for. */
  readonly measure?: Measure | undefined
  /** Observes in the place of telemetry. */
  readonly observe?: Observe
}

/** What tells others of what the gateway does: telemetry and the audit log, as the configuration has them. */
export class Reporting {
  readonly telemetry: Telemetry
  readonly audit: Audit
  readonly observe: Observe
  readonly #log: Logger

  constructor(log: Logger, { exports, observe, measure }: ReportingOptions) {
    this.telemetry = new Telemetry({ ...exports, role: 'gateway', version: manifest.version, log, measure })
    this.audit = new Audit(log)
    this.observe = observe ?? this.telemetry.observe
    this.#log = log
  }

  /** Puts a configuration in force. Never rejects. */
  async apply({ config, directory }: Loaded<GatewayConfig>): Promise<void> {
    const { telemetry, audit, name: workload, namespace } = config
    await Promise.all([
      this.telemetry.apply({ telemetry, directory, workload, namespace }),
      this.audit.apply({ audit, directory, workload }),
    ])
  }

  /** Puts another configuration in force, and tells of it. */
  async reload(next: Loaded<GatewayConfig>): Promise<void> {
    await this.apply(next)
    this.#log.info({ config: next.hash }, 'another configuration is in force')
    this.audit.reloaded(next.hash)
  }

  /** Tells that another configuration was refused. */
  refused(findings: readonly Finding[]): void {
    this.#log.error({ findings: findings.map(findingLine) }, 'the new configuration is refused, the old one serves')
    this.audit.reloaded(undefined)
  }

  /** Its part of `/status`. */
  status(): object {
    return { ...this.telemetry.status(), ...this.audit.status() }
  }

  /** Sends and writes what is left, as far as that goes at once. */
  async close(): Promise<void> {
    await Promise.all([this.telemetry.close(), this.audit.close()])
  }
}
