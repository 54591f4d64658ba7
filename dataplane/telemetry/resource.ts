import { hostname } from 'node:os'
import type { TelemetryConfig, TelemetryOptions } from './options.ts'

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
