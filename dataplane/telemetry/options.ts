import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { TelemetrySettings } from '../config/telemetry.ts'
import type { Measure } from './metrics/metrics.ts'

export interface TelemetryConfig {
  readonly telemetry: TelemetrySettings | undefined
  readonly directory: string
  /** `service.name` if the block sets none. */
  readonly workload: string
  readonly namespace?: string | undefined
}

export interface ExportTimes {
  /** Milliseconds between two exports of metrics; default 60 s. */
  readonly metricsEveryMs?: number | undefined
  /** Longest time that an ended span waits for its export, in milliseconds; default 5 s. */
  readonly spansAfterMs?: number | undefined
}

export type Role = 'gateway' | 'registry'

export interface TelemetryOptions extends ExportTimes {
  readonly role: Role
  /** Measures values on request; called whenever metrics are read. */
  readonly measure?: Measure | undefined
  readonly version: string
  readonly log: Logger
}

/** Returns the reporting workload as OpenTelemetry resource attributes. Only the workload sets `service.name`. */
export function buildResourceAttributes(
  { telemetry, workload, namespace }: TelemetryConfig,
  { version }: Pick<TelemetryOptions, 'version'>,
): Readonly<Record<string, string>> {
  return {
    ...(namespace === undefined ? {} : { 'service.namespace': namespace }),
    'service.version': version,
    // The name of the pod tells replicas apart.
    'service.instance.id': hostname(),
    ...telemetry?.openTelemetry?.resourceAttributes,
    'service.name': telemetry?.serviceName ?? workload,
  }
}
