import type { Logger } from 'pino'
import type { TelemetrySettings } from '../config/telemetry/telemetry.ts'

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

export interface TelemetryOptions extends ExportTimes {
  readonly role: 'gateway' | 'registry'
  readonly version: string
  readonly log: Logger
}
