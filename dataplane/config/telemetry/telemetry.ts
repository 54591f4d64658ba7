import Type, { type Static } from 'typebox'
import { SAMPLING_RATE } from '../../../crds/shared/telemetry.ts'

/**
 * The block `telemetry` of a gateway and of a registry: the spec of MCPTelemetryConfig, with files in the place of
 * references, and the name under which a workload reports.
 */

const strict = { additionalProperties: false }
const texts = (description: string) =>
  Type.Unsafe<Record<string, string>>({ type: 'object', description, additionalProperties: { type: 'string' } })

const openTelemetry = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean({ description: 'Sends anything at all.', default: false })),
    endpoint: Type.Optional(
      Type.String({
        description: 'Base URL of OTLP over HTTP. Without a scheme: HTTPS, or HTTP when `insecure`.',
        minLength: 1,
        maxLength: 2048,
      }),
    ),
    insecure: Type.Optional(Type.Boolean({ default: false })),
    headers: Type.Optional(texts('Headers of each export.')),
    sensitiveHeaders: Type.Optional(
      Type.Array(
        Type.Object(
          {
            name: Type.String({ minLength: 1 }),
            file: Type.String({ description: 'The value; surrounding white space is dropped.', minLength: 1 }),
          },
          strict,
        ),
        { description: 'Headers whose values are in files; read anew when they change.' },
      ),
    ),
    caBundleFile: Type.Optional(
      Type.String({ description: 'PEM file of CAs trusted for the endpoint, besides the system’s.', minLength: 1 }),
    ),
    resourceAttributes: Type.Optional(texts('Attributes of everything that is sent.')),
    useLegacyAttributes: Type.Optional(
      Type.Boolean({ description: 'Older attribute names on spans, beside the current ones.', default: true }),
    ),
    metrics: Type.Optional(Type.Object({ enabled: Type.Optional(Type.Boolean({ default: false })) }, strict)),
    tracing: Type.Optional(
      Type.Object(
        {
          enabled: Type.Optional(Type.Boolean({ default: false })),
          samplingRate: Type.Optional(Type.String({ pattern: SAMPLING_RATE, maxLength: 32, default: '0.05' })),
        },
        strict,
      ),
    ),
  },
  strict,
)

export const telemetrySchema = Type.Object(
  {
    serviceName: Type.Optional(
      Type.String({ description: 'OpenTelemetry `service.name`; absent: the workload’s.', minLength: 1 }),
    ),
    openTelemetry: Type.Optional(openTelemetry),
    prometheus: Type.Optional(
      Type.Object(
        { enabled: Type.Optional(Type.Boolean({ description: '`/metrics` on the admin listener.', default: false })) },
        strict,
      ),
    ),
  },
  strict,
)

export type TelemetrySettings = Static<typeof telemetrySchema>
export type OpenTelemetrySettings = NonNullable<TelemetrySettings['openTelemetry']>
