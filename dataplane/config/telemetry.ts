import { asFile } from '../../crds/settings/file-form.ts'
import type { Static } from '../../crds/settings/schema.ts'
import { ownTelemetry } from '../../crds/settings/telemetry.ts'

/**
 * The block `telemetry` of a gateway and of a registry: the spec of MCPTelemetryConfig, with files in the place of
 * references, and the name under which a workload reports.
 */
export const telemetrySchema = asFile(ownTelemetry)

export type TelemetrySettings = Static<typeof telemetrySchema>
export type OpenTelemetrySettings = NonNullable<TelemetrySettings['openTelemetry']>
