import { type MCPTelemetryConfig, mcpTelemetryConfig } from '../../../crds/index.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import type { Conditions } from '../outcome/conditions.ts'
import { problemText } from '../outcome/problems.ts'
import { checkNotRefused, notYetSupported } from '../outcome/supported.ts'
import { caBundleFile, caBundleFound } from '../references/ca-bundle.ts'
import type { KeyRef, Resolver } from '../references/resolver.ts'
import { type CheckConfig, planConfig } from './config.ts'
import { referencedConfig } from './referenced-config.ts'

const CA_BUNDLE = '/spec/openTelemetry/caBundleRef'

/** Secrets of the headers, where anything is sent: a credential that nobody uses isn't mounted. */
function headerSecrets({ spec }: MCPTelemetryConfig): readonly KeyRef[] {
  const { enabled, sensitiveHeaders = [] } = spec.openTelemetry ?? {}
  return enabled ? sensitiveHeaders.map(({ secretKeyRef }) => secretKeyRef) : []
}

const checkTelemetryConfig: CheckConfig<typeof mcpTelemetryConfig> = (object, resolver) => {
  checkNotRefused(mcpTelemetryConfig, object, resolver.problems)
  const { caBundleRef } = object.spec.openTelemetry ?? {}
  if (caBundleRef) caBundleFound(caBundleRef, CA_BUNDLE, resolver)
  for (const ref of headerSecrets(object)) resolver.secretKey(ref)
}

/** What a config or its workloads say of settings that nobody acts on yet: they are no reason not to serve. */
const WARNING = 'TelemetryWarning'

export const reconcileMcpTelemetryConfig = planConfig(mcpTelemetryConfig, checkTelemetryConfig, { warning: WARNING })

export interface TelemetryReference {
  readonly name: string
  readonly serviceName?: string | undefined
}

export interface WorkloadTelemetry {
  readonly config: MCPTelemetryConfig
  /** Environment of the data plane's container: `service.name` by the name that OpenTelemetry gives it. */
  readonly env: readonly { readonly name: string; readonly value: string }[]
}

/**
 * Mounts what a workload's telemetry needs from other objects: the CA bundle of the endpoint and the values of the
 * secret headers. `serviceName` is the workload's own name where the reference gives no other.
 */
export function mountTelemetry(
  ref: TelemetryReference | undefined,
  name: string,
  resolver: Resolver,
  mounts: Mounts,
): WorkloadTelemetry | undefined {
  if (ref === undefined) return undefined
  const config = referencedConfig(
    { kind: mcpTelemetryConfig, check: checkTelemetryConfig, strict: false },
    ref.name,
    resolver,
  )
  if (!config) return undefined
  caBundleFile(config.spec.openTelemetry?.caBundleRef, CA_BUNDLE, resolver, mounts)
  for (const secret of headerSecrets(config)) mounts.secretFile(secret.name, secret.key)
  return { config, env: [{ name: 'OTEL_SERVICE_NAME', value: ref.serviceName ?? name }] }
}

/** Says what of its telemetry a workload doesn't emit yet. It is no reason not to serve: nobody is let in by it. */
export function warnOfTelemetry(telemetry: WorkloadTelemetry | undefined, conditions: Conditions): void {
  if (!telemetry) return
  const { config } = telemetry
  const waiting = notYetSupported(mcpTelemetryConfig, config).map(problemText)
  const { enabled, sensitiveHeaders = [] } = config.spec.openTelemetry ?? {}
  const names = sensitiveHeaders.map(({ name }) => name).sort()
  if (enabled && names.length > 0) waiting.push(`the values of ${names.join(', ')} are mounted and not sent yet`)
  if (waiting.length === 0) return
  const title = `MCPTelemetryConfig ${JSON.stringify(config.metadata.name)}`
  const message = `${title}: ${waiting.join('; ')}`
  conditions.set(WARNING, 'True', 'NotYetSupported', message)
}
