import type { MCPTelemetryConfig } from '../../../crds/index.ts'
import { ownTelemetry } from '../../../crds/shared/telemetry.ts'
import type { TelemetrySettings } from '../../../dataplane/config/telemetry.ts'
import { type MountPlace, mounted } from '../references/mounted.ts'

/** The fields that MCPTelemetryConfig and the block of a registry have in common. */
export type TelemetrySpec = Pick<MCPTelemetryConfig['spec'], 'openTelemetry' | 'prometheus'>

/**
 * The block `telemetry` of a data plane, which reports as `serviceName`; the values of secret headers and the CA bundle
 * are mounted.
 */
export function telemetrySettings(
  { openTelemetry, prometheus }: TelemetrySpec,
  serviceName: string,
  place: MountPlace,
): TelemetrySettings {
  const settings = { serviceName, ...(prometheus && { prometheus }) }
  if (openTelemetry === undefined) return settings
  const { sensitiveHeaders, ...others } = openTelemetry
  // A credential that nobody uses isn't mounted.
  const sent = openTelemetry.enabled ? openTelemetry : others
  return mounted(ownTelemetry, { ...settings, openTelemetry: sent }, place)
}
