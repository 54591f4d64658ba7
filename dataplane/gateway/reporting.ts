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
  /** The intervals at which telemetry is sent. */
  readonly exports?: ExportTimes | undefined
  /** Measures the state when metrics are read. */
  readonly measure?: Measure | undefined
  /** Replaces the observation of telemetry. */
  readonly observe?: Observe
}

/** The reports on the gateway's work: telemetry and the audit log, as the configuration sets them. */
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

  /** Applies a configuration. Never rejects. */
  async apply({ config, directory }: Loaded<GatewayConfig>): Promise<void> {
    const { telemetry, audit, name: workload, namespace } = config
    await Promise.all([
      this.telemetry.apply({ telemetry, directory, workload, namespace }),
      this.audit.apply({ audit, directory, workload }),
    ])
  }

  /** Applies another configuration and reports it. */
  async reload(next: Loaded<GatewayConfig>): Promise<void> {
    await this.apply(next)
    this.#log.info({ config: next.hash }, 'another configuration is in force')
    this.audit.reloaded(next.hash)
  }

  /** Reports that another configuration was refused. */
  refused(findings: readonly Finding[]): void {
    this.#log.error(
      { findings: findings.map(findingLine) },
      'the new configuration is refused; the previous one stays in use',
    )
    this.audit.reloaded(undefined)
  }

  /** The reporting part of `/status`. */
  status(): object {
    return { ...this.telemetry.status(), ...this.audit.status() }
  }

  /** Sends and writes the rest, as far as that is possible at once. */
  async close(): Promise<void> {
    await Promise.all([this.telemetry.close(), this.audit.close()])
  }
}
