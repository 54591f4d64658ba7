import { age, defineKind, type ObjectOf, ready, users } from '../define.ts'
import { object } from '../settings/schema.ts'
import { configStatus, workloadKinds } from '../settings/status.ts'
import { telemetryParts } from '../settings/telemetry.ts'

export const mcpTelemetryConfig = defineKind({
  kind: 'MCPTelemetryConfig',
  plural: 'mcptelemetryconfigs',
  shortNames: ['mcpotel'],
  description: 'Traces, metrics and Prometheus settings; shared by workloads.',
  role: 'config',
  columns: [
    { name: 'Endpoint', type: 'string', jsonPath: '.spec.openTelemetry.endpoint' },
    { name: 'Tracing', type: 'boolean', jsonPath: '.spec.openTelemetry.tracing.enabled' },
    { name: 'Metrics', type: 'boolean', jsonPath: '.spec.openTelemetry.metrics.enabled' },
    { name: 'Prometheus', type: 'boolean', jsonPath: '.spec.prometheus.enabled', priority: 1 },
    users,
    ready,
    age,
  ],
  spec: object(
    'Telemetry settings; an empty object sends nothing.',
    telemetryParts({ signals: 'gateway', mounts: 'operator' }),
  ),
  status: configStatus(workloadKinds, {}),
})

export type MCPTelemetryConfig = ObjectOf<typeof mcpTelemetryConfig>
