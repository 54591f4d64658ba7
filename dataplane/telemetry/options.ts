import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { TelemetrySettings } from '../config/telemetry.ts'
import type { Measure } from './metrics/metrics.ts'

/** What the block `telemetry` of a configuration is for. */
export interface TelemetryConfig {
  readonly telemetry: TelemetrySettings | undefined
  /** Folder that file paths are relative to. */
  readonly directory: string
  /** `service.name` where the block names none. */
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
  /** Measures what is known when it is asked for; called whenever metrics are read. */
  readonly measure?: Measure | undefined
  readonly version: string
  readonly log: Logger
}

/** Who reports, as attributes of a resource of OpenTelemetry. `service.name` is the workload's alone to say. */
export function resourceAttributesOf(
  { telemetry, workload, namespace }: TelemetryConfig,
  { version }: Pick<TelemetryOptions, 'version'>,
): Readonly<Record<string, string>> {
  return {
    ...(namespace === undefined ? {} : { 'service.namespace': namespace }),
    'service.version': version,
    // Replicas are told apart by the names of their pods.
    'service.instance.id': hostname(),
    ...telemetry?.openTelemetry?.resourceAttributes,
    'service.name': telemetry?.serviceName ?? workload,
  }
}
