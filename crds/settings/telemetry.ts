import { inFile } from './file-form.ts'
import { apart, distinctHeaderKeys, distinctHeaders, headerKeys, headerName, headerValue } from './headers.ts'
import { limits } from './limits.ts'
import { caBundleRef, secretKeyRef } from './references.ts'
import { defaulted, flag, list, map, object, type Reader, Type, text } from './schema.ts'

export const SAMPLING_RATE = '^(0(\\.\\d+)?|1(\\.0+)?)$'

interface TelemetryReaders {
  readonly signals: Reader
  readonly mounts: Reader
}

const openTelemetry = ({ signals, mounts }: TelemetryReaders) =>
  object(
    'OTLP endpoint, tracing and metrics.',
    {
      enabled: defaulted(flag(mounts, 'Turns OpenTelemetry on.', { default: false })),
      endpoint: Type.Optional(
        text(signals, 'OTLP endpoint for traces and metrics. Without a scheme: HTTPS, or HTTP when `insecure`.', {
          min: 1,
          max: limits.url,
        }),
      ),
      insecure: defaulted(flag(signals, 'Use HTTP instead of HTTPS for the endpoint.', { default: false })),
      headers: Type.Optional(
        map(
          'Plain headers for the endpoint. Credentials go in `sensitiveHeaders`.',
          headerValue(signals, 'The value.'),
          {
            rules: [headerKeys, distinctHeaderKeys],
          },
        ),
      ),
      sensitiveHeaders: Type.Optional(
        list(
          'Headers whose values come from Secrets.',
          object('A header.', {
            name: headerName(mounts, 'Name of the header.'),
            secretKeyRef: inFile('file', secretKeyRef(mounts, 'The Secret with the value.')),
          }),
          { type: { map: ['name'] }, rules: [distinctHeaders('name')] },
        ),
      ),
      resourceAttributes: Type.Optional(
        map('Resource attributes added to all signals.', text(signals, 'The value.'), {
          rules: [
            {
              rule: "!('service.name' in self)",
              message: 'service.name is set for each workload, by serviceName of its telemetryConfigRef',
            },
          ],
        }),
      ),
      useLegacyAttributes: defaulted(
        flag(signals, 'Emit the older attribute names beside those of the MCP semantic conventions.', {
          default: true,
        }),
      ),
      caBundleRef: Type.Optional(caBundleRef(mounts, 'CA bundle for the OTLP endpoint.')),
      metrics: Type.Optional(
        object('Metrics over OTLP.', {
          enabled: defaulted(flag(signals, 'Send metrics.', { default: false })),
        }),
      ),
      tracing: Type.Optional(
        object('Traces over OTLP.', {
          enabled: defaulted(flag(signals, 'Send traces.', { default: false })),
          samplingRate: defaulted(
            text(signals, 'Fraction of traces that are sent, from 0.0 to 1.0.', {
              max: 32,
              pattern: SAMPLING_RATE,
              default: '0.05',
            }),
          ),
        }),
      ),
    },
    {
      rules: [
        {
          rule: apart('self.sensitiveHeaders', 'name', 'self.headers'),
          message: 'a header may be in headers or in sensitiveHeaders, not in both',
        },
        {
          rule: "!has(self.endpoint) || !self.endpoint.lowerAscii().startsWith('http://') || self.insecure",
          message: 'an http:// endpoint needs insecure: true',
        },
        {
          rule: '!has(self.caBundleRef) || !self.insecure',
          message: 'caBundleRef has no use when insecure is true',
        },
      ],
    },
  )

/** Traces, metrics and Prometheus: the spec of MCPTelemetryConfig, and most of the block `telemetry`. */
export const telemetryParts = (readers: TelemetryReaders) => ({
  openTelemetry: Type.Optional(openTelemetry(readers)),
  prometheus: Type.Optional(
    object('Prometheus settings.', {
      enabled: defaulted(flag(readers.signals, 'Serve `/metrics` on the admin listener.', { default: false })),
    }),
  ),
})

/** The block `telemetry` of a registry and of every data plane's file. */
export const ownTelemetry = object('Telemetry of a workload.', {
  ...telemetryParts({ signals: 'registry', mounts: 'operator' }),
  serviceName: Type.Optional(
    text('registry', 'OpenTelemetry `service.name`. Absent: the object’s name.', { min: 1, max: limits.name }),
  ),
})
