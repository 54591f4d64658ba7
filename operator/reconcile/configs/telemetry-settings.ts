import type { MCPTelemetryConfig } from '../../../crds/index.ts'
import type { OpenTelemetrySettings, TelemetrySettings } from '../../../dataplane/config/telemetry/telemetry.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { caBundleFile } from '../references/ca-bundle.ts'
import type { KeyRef, Resolver } from '../references/resolver.ts'

/** The fields that MCPTelemetryConfig and the block of a registry have in common. */
export type TelemetrySpec = Pick<MCPTelemetryConfig['spec'], 'openTelemetry' | 'prometheus'>
type OpenTelemetrySpec = NonNullable<TelemetrySpec['openTelemetry']>

/** Secrets of the headers, where anything is sent: a credential that nobody uses isn't mounted. */
export function headerSecrets({ openTelemetry }: TelemetrySpec): readonly KeyRef[] {
  const { enabled, sensitiveHeaders = [] } = openTelemetry ?? {}
  return enabled ? sensitiveHeaders.map(({ secretKeyRef }) => secretKeyRef) : []
}

/** What needs nothing from other objects. */
export function plainSettings(spec: OpenTelemetrySpec): OpenTelemetrySettings {
  const { enabled, endpoint, insecure, headers, resourceAttributes, useLegacyAttributes, metrics, tracing } = spec
  return {
    enabled,
    ...(endpoint === undefined ? {} : { endpoint }),
    insecure,
    ...(headers === undefined ? {} : { headers: sortedKeys(headers) }),
    ...(resourceAttributes === undefined ? {} : { resourceAttributes: sortedKeys(resourceAttributes) }),
    useLegacyAttributes,
    ...(metrics === undefined ? {} : { metrics: { enabled: metrics.enabled } }),
    ...(tracing === undefined ? {} : { tracing: { enabled: tracing.enabled, samplingRate: tracing.samplingRate } }),
  }
}

/**
 * The block `telemetry` of a data plane, which reports as `serviceName`; the values of secret headers and the CA bundle
 * are mounted. `at`: where `spec` stands in its object.
 */
export function telemetrySettings(
  { openTelemetry: spec, prometheus }: TelemetrySpec,
  { serviceName, at }: { readonly serviceName: string; readonly at: string },
  resolver: Resolver,
  mounts: Mounts,
): TelemetrySettings {
  const own = { serviceName, ...(prometheus === undefined ? {} : { prometheus: { enabled: prometheus.enabled } }) }
  if (spec === undefined) return own
  const caFile = caBundleFile(spec.caBundleRef, `${at}/openTelemetry/caBundleRef`, resolver, mounts)
  const sensitiveHeaders = (spec.enabled ? (spec.sensitiveHeaders ?? []) : []).map(({ name, secretKeyRef }) => ({
    name,
    file: mounts.secretFile(secretKeyRef.name, secretKeyRef.key),
  }))
  return {
    ...own,
    openTelemetry: {
      ...plainSettings(spec),
      ...(sensitiveHeaders.length === 0 ? {} : { sensitiveHeaders }),
      ...(caFile === undefined ? {} : { caBundleFile: caFile }),
    },
  }
}
