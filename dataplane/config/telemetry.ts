import { asFile } from '../../crds/settings/file-form.ts'
import type { Static } from '../../crds/settings/schema.ts'
import { ownTelemetry } from '../../crds/settings/telemetry.ts'

/**
 * The block `telemetry`: the spec of MCPTelemetryConfig with files instead of references, and the name to report under.
 */
export const telemetrySchema = asFile(ownTelemetry)

export type TelemetrySettings = Static<typeof telemetrySchema>
export type OpenTelemetrySettings = NonNullable<TelemetrySettings['openTelemetry']>
