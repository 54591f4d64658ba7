import { asFile } from '../../crds/shared/file-form.ts'
import type { Static } from '../../crds/shared/schema.ts'
import { ownTelemetry } from '../../crds/shared/telemetry.ts'

/**
 * The block `telemetry` of a gateway and of a registry: the spec of MCPTelemetryConfig, with files in the place of
 * references, and the name under which a workload reports.
 */
export const telemetrySchema = asFile(ownTelemetry)

export type TelemetrySettings = Static<typeof telemetrySchema>
export type OpenTelemetrySettings = NonNullable<TelemetrySettings['openTelemetry']>
