import { type MCPTelemetryConfig, mcpTelemetryConfig } from '../../../crds/index.ts'
import { telemetryFindings } from '../../../dataplane/config/check/telemetry.ts'
import type { Finding } from '../../../dataplane/config/load.ts'
import type { TelemetrySettings } from '../../../dataplane/config/telemetry/telemetry.ts'
import { type Mounts, startMounts } from '../../render/pod/mounts.ts'
import { noteInvalid, partFindings } from '../outcome/file-findings.ts'
import { checkSupported } from '../outcome/supported.ts'
import { caBundleFound } from '../references/ca-bundle.ts'
import type { Resolver } from '../references/resolver.ts'
import { type CheckConfig, planConfig } from './config.ts'
import { referencedConfig } from './referenced-config.ts'
import { headerSecrets, plainSettings, telemetrySettings } from './telemetry-settings.ts'

const CA_BUNDLE = '/spec/openTelemetry/caBundleRef'

/** What no exporter can send by, as far as the schema doesn't see it. */
function sendingFindings({ spec }: MCPTelemetryConfig): readonly Finding[] {
  const { openTelemetry } = spec
  if (openTelemetry === undefined) return []
  const headers = openTelemetry.sensitiveHeaders?.map(({ name }) => ({ name, file: name }))
  const settings = { ...plainSettings(openTelemetry), ...(headers === undefined ? {} : { sensitiveHeaders: headers }) }
  return telemetryFindings({ openTelemetry: settings }, '/spec')
}

const checkTelemetryConfig: CheckConfig<typeof mcpTelemetryConfig> = (object, resolver) => {
  checkSupported(mcpTelemetryConfig, object, resolver.problems)
  const { caBundleRef } = object.spec.openTelemetry ?? {}
  if (caBundleRef) caBundleFound(caBundleRef, CA_BUNDLE, resolver)
  for (const ref of headerSecrets(object.spec)) resolver.secretKey(ref)
  noteInvalid(sendingFindings(object), resolver.problems)
  if (!resolver.problems.none) return
  const telemetry = telemetrySettings(object.spec, { serviceName: 'any', at: '/spec' }, resolver, startMounts(''))
  noteInvalid(partFindings({ telemetry }, { '/telemetry': '/spec' }), resolver.problems)
}

export const reconcileMcpTelemetryConfig = planConfig(mcpTelemetryConfig, checkTelemetryConfig)

export interface TelemetryReference {
  readonly name: string
  readonly serviceName?: string | undefined
}

/**
 * The telemetry of a workload, with what it needs from other objects mounted: the CA bundle of the endpoint and the
 * values of the secret headers. `serviceName` is the workload's own name where the reference gives no other.
 */
export function workloadTelemetry(
  ref: TelemetryReference | undefined,
  name: string,
  resolver: Resolver,
  mounts: Mounts,
): TelemetrySettings | undefined {
  if (ref === undefined) return undefined
  const config = referencedConfig({ kind: mcpTelemetryConfig, check: checkTelemetryConfig }, ref.name, resolver)
  if (!config) return undefined
  const serviceName = ref.serviceName ?? name
  return telemetrySettings(config.spec, { serviceName, at: '/spec' }, resolver, mounts)
}
