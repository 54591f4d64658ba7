import { type MCPTelemetryConfig, mcpTelemetryConfig, type VirtualMCPServer } from '../../../crds/index.ts'
import { ownTelemetry } from '../../../crds/settings/telemetry.ts'
import { telemetryFindings } from '../../../dataplane/config/check/telemetry.ts'
import type { TelemetrySettings } from '../../../dataplane/config/telemetry.ts'
import { type Mounts, startMounts } from '../../render/pod/containers.ts'
import { checkSupported, noteInvalid, validatePart } from '../outcome/findings.ts'
import {
  type CheckConfig,
  findConfig,
  type MountPlace,
  mountSettings,
  type Resolver,
} from '../references/references.ts'
import { planConfig } from './config.ts'

/** The fields that MCPTelemetryConfig and the block of a registry have in common. */
type TelemetrySpec = Pick<MCPTelemetryConfig['spec'], 'openTelemetry' | 'prometheus'>

/** Builds the block `telemetry` of a data plane, with mounted secret headers and CA bundle. */
export function buildTelemetry(
  { openTelemetry, prometheus }: TelemetrySpec,
  serviceName: string,
  place: MountPlace,
): TelemetrySettings {
  const settings = { serviceName, ...(prometheus && { prometheus }) }
  if (openTelemetry === undefined) return settings
  const { sensitiveHeaders, ...others } = openTelemetry
  // A credential that nobody uses isn't mounted.
  const sent = openTelemetry.enabled ? openTelemetry : others
  return mountSettings(ownTelemetry, { ...settings, openTelemetry: sent }, place)
}

const checkTelemetryConfig: CheckConfig<typeof mcpTelemetryConfig> = (object, resolver) => {
  checkSupported(mcpTelemetryConfig, object, resolver.problems)
  const place = { at: '/spec', resolver, mounts: startMounts('') }
  const telemetry = buildTelemetry(object.spec, 'any', place)
  noteInvalid(telemetryFindings(object.spec, '/spec'), resolver.problems)
  if (resolver.problems.none) noteInvalid(validatePart({ telemetry }, { '/telemetry': '/spec' }), resolver.problems)
}

export const reconcileMcpTelemetryConfig = planConfig(mcpTelemetryConfig, checkTelemetryConfig)

/** Builds the telemetry of a workload. `serviceName` is its own name unless the reference sets one. */
export function buildWorkloadTelemetry(
  ref: VirtualMCPServer['spec']['telemetryConfigRef'],
  name: string,
  resolver: Resolver,
  mounts: Mounts,
): TelemetrySettings | undefined {
  if (ref === undefined) return undefined
  const config = findConfig(mcpTelemetryConfig, checkTelemetryConfig, ref.name, resolver)
  if (!config) return undefined
  const serviceName = ref.serviceName ?? name
  return buildTelemetry(config.spec, serviceName, { at: '/spec', resolver, mounts })
}
