/** `spec.config` of a VirtualMCPServer: the settings of the gateway itself. */

import { gatewayAudit } from '../audit.ts'
import { authzClaims, cedarPolicies, entitiesJson } from '../auth/authz.ts'
import { headerName, headerValue, passthroughHeaders } from '../headers.ts'
import { limits } from '../limits.ts'
import { objectRef } from '../references.ts'
import { blockFor } from '../rules.ts'
import {
  choice,
  defaulted,
  duration,
  flag,
  integer,
  list,
  map,
  object,
  objectName,
  type Reader,
  Type,
  text,
  url,
} from '../schema.ts'
import { SAMPLING_RATE } from '../telemetry.ts'
import { aggregation } from './aggregation.ts'
import { catalogGate } from './catalog-gate.ts'
import { cors } from './cors.ts'
import { failureHandling } from './failure-handling.ts'
import { optimizer } from './optimizer.ts'
import { gatewayPinning } from './pinning.ts'
import { rateLimiting } from './rate-limits.ts'
import { plainSessionStorage } from './session-storage.ts'
import { usage } from './usage.ts'
import { workflows } from './workflow.ts'

// Parts in the widely used gateway's own file format. They are refused with the name of the field to use instead.

const staticBackends = (readBy: Reader) =>
  list(
    'Backends besides the members of the group.',
    object('A backend.', {
      name: objectName(readBy, 'Name, prefix of its tools.'),
      url: url(readBy, 'MCP endpoint.'),
      transport: choice(readBy, 'Transport.', ['sse', 'streamable-http']),
      type: Type.Optional(choice(readBy, 'Kind of backend.', ['', 'entry'])),
      caBundlePath: Type.Optional(text(readBy, 'CA bundle in the pod.', { max: limits.text })),
      metadata: Type.Optional(map('Labels of the backend.', text(readBy, 'A value.'))),
    }),
    { type: { map: ['name'] } },
  )

const secretFromEnv = (readBy: Reader, description: string) =>
  Type.Optional(text(readBy, description, { min: 1, max: limits.name }))

const incomingAuth = (readBy: Reader) =>
  object('How clients are authenticated, in the form of the gateway’s own file.', {
    type: choice(readBy, 'How clients are authenticated.', ['anonymous', 'oidc']),
    oidc: Type.Optional(
      object('Token validation.', {
        issuer: url(readBy, 'Issuer.'),
        clientId: Type.Optional(text(readBy, 'Client id for introspection.')),
        clientSecretEnv: secretFromEnv(readBy, 'Environment variable with the client secret.'),
        audience: text(readBy, 'Required in `aud`.', { min: 1, max: limits.url }),
        resource: Type.Optional(url(readBy, 'Resource URL.')),
        scopes: Type.Optional(list('Scopes told to clients.', text(readBy, 'A scope.', { min: 1, max: limits.name }))),
        jwksUrl: Type.Optional(url(readBy, 'URL of the keys.')),
        introspectionUrl: Type.Optional(url(readBy, 'Introspection endpoint.')),
        caBundlePath: Type.Optional(text(readBy, 'CA bundle in the pod.')),
        jwksAllowPrivateIp: defaulted(flag(readBy, 'The key endpoint may be private.', { default: false })),
        protectedResourceAllowPrivateIp: defaulted(flag(readBy, 'The issuer may be private.', { default: false })),
        insecureAllowHttp: defaulted(flag(readBy, 'Plain http beyond loopback.', { default: false })),
      }),
    ),
    authz: Type.Optional(
      object('Authorization.', {
        type: choice(readBy, 'Engine.', ['cedar', 'none']),
        policies: Type.Optional(cedarPolicies(readBy)),
        entitiesJson: Type.Optional(entitiesJson(readBy)),
        primaryUpstreamProvider: Type.Optional(
          text(readBy, 'Provider whose claims policies read.', { max: limits.label }),
        ),
        ...authzClaims(readBy),
      }),
    ),
  })

const strategy = (readBy: Reader, description: string) =>
  object(
    description,
    {
      type: choice(readBy, 'Strategy.', ['unauthenticated', 'header_injection', 'token_exchange', 'upstream_inject']),
      headerInjection: Type.Optional(
        object('A header with a fixed value.', {
          headerName: headerName(readBy, 'Name of the header.'),
          headerValue: Type.Optional(headerValue(readBy, 'The value.')),
          headerValueEnv: secretFromEnv(readBy, 'Environment variable with the value.'),
        }),
      ),
      tokenExchange: Type.Optional(
        object('Token exchange (RFC 8693).', {
          tokenUrl: url(readBy, 'Token endpoint.'),
          audience: Type.Optional(text(readBy, 'Audience.', { max: limits.url })),
          clientId: Type.Optional(text(readBy, 'Client id.')),
          clientSecretEnv: secretFromEnv(readBy, 'Environment variable with the client secret.'),
          scopes: Type.Optional(list('Scopes.', text(readBy, 'A scope.', { min: 1, max: limits.name }))),
          subjectProviderName: Type.Optional(
            text(readBy, 'Upstream provider of the subject token.', { max: limits.label }),
          ),
          subjectTokenType: Type.Optional(text(readBy, 'Type of the subject token.', { max: limits.name })),
        }),
      ),
      upstreamInject: Type.Optional(
        object('The upstream token stored at login.', {
          providerName: text(readBy, 'Upstream provider.', { min: 1, max: limits.label }),
        }),
      ),
    },
    {
      rules: blockFor('type', {
        header_injection: 'headerInjection',
        token_exchange: 'tokenExchange',
        upstream_inject: 'upstreamInject',
      }),
    },
  )

const outgoingAuth = (readBy: Reader) =>
  object('Credentials for backends, in the form of the gateway’s own file.', {
    source: choice(readBy, 'Where credentials are configured.', ['discovered', 'inline']),
    default: Type.Optional(strategy(readBy, 'For backends that are not listed.')),
    backends: Type.Optional(map('By backend.', strategy(readBy, 'For this backend.'))),
  })

const telemetry = (readBy: Reader) =>
  object('Telemetry, in the form of the gateway’s own file.', {
    endpoint: Type.Optional(text(readBy, 'OTLP endpoint.', { max: limits.url })),
    headers: Type.Optional(map('Headers for it.', headerValue(readBy, 'The value.'))),
    insecure: defaulted(flag(readBy, 'Use HTTP.', { default: false })),
    samplingRate: defaulted(text(readBy, 'Share of traces.', { max: 32, pattern: SAMPLING_RATE, default: '0.05' })),
    tracingEnabled: defaulted(flag(readBy, 'Send traces.', { default: false })),
    metricsEnabled: defaulted(flag(readBy, 'Send metrics.', { default: false })),
    enablePrometheusMetricsPath: defaulted(flag(readBy, 'Serve `/metrics`.', { default: false })),
    serviceName: Type.Optional(text(readBy, 'OpenTelemetry `service.name`.', { max: limits.name })),
    serviceVersion: Type.Optional(text(readBy, 'OpenTelemetry `service.version`.', { max: limits.name })),
    customAttributes: Type.Optional(map('Resource attributes.', text(readBy, 'The value.'))),
    environmentVariables: Type.Optional(
      list('Environment variables recorded as attributes.', text(readBy, 'A name.', { min: 1, max: limits.name })),
    ),
    caCertPath: Type.Optional(text(readBy, 'CA certificate in the pod.')),
    useLegacyAttributes: defaulted(flag(readBy, 'Older attribute names too.', { default: true })),
  })

/** Fields that this resource replaces by others, each with the reason for its refusal and the field to set instead. */
const REPLACED = {
  metadata: { refused: 'nothing reads it; use labels and annotations in metadata of this object' },
  backends: { refused: 'backends are members of the group; use an MCPServerEntry with groupRef for each' },
  incomingAuth: { refused: 'use spec.incomingAuth, with an MCPOIDCConfig in oidcConfigRef' },
  outgoingAuth: { refused: 'use spec.outgoingAuth, with MCPExternalAuthConfigs in externalAuthConfigRef' },
  telemetry: { refused: 'use spec.telemetryConfigRef, with an MCPTelemetryConfig' },
} as const

const operational = object('Timeouts, logging and failure handling.', {
  logLevel: Type.Optional(choice('gateway', 'Log level; info when left out.', ['debug', 'info', 'warn', 'error'])),
  timeouts: Type.Optional(
    object('Longest waits for backends.', {
      default: defaulted(duration('gateway', 'For every backend.', { default: '30s' })),
      perWorkload: Type.Optional(
        map('For single backends, by name.', duration('gateway', 'For this backend.'), { max: limits.members }),
      ),
    }),
  ),
  failureHandling: Type.Optional(failureHandling),
})

const CODE_MODE = { refused: 'scripts in the gateway are not supported' } as const

const codeMode = object('Scripts that call several tools.', {
  enabled: defaulted(flag(CODE_MODE, 'Offer it.', { default: false })),
  parallelMaxConcurrency: defaulted(integer(CODE_MODE, 'Calls at the same time.', { minimum: 1, default: 10 })),
  stepLimit: defaulted(integer(CODE_MODE, 'Steps of a script.', { minimum: 1, default: 100000 })),
  toolCallTimeout: defaulted(duration(CODE_MODE, 'Longest wait for a call.', { default: '30s' })),
})

export const virtualMcpConfig = object('Settings of the gateway.', {
  name: Type.Optional(
    text('gateway', 'Name told to clients. Absent: the object’s name.', { min: 1, max: limits.name }),
  ),
  groupRef: Type.Optional(objectName('operator', 'The group; the same as `spec.groupRef.name`.')),
  metadata: Type.Optional(map('Metadata of the gateway.', text(REPLACED.metadata, 'A value.'))),
  passthroughHeaders: Type.Optional(passthroughHeaders('gateway')),
  aggregation: Type.Optional(aggregation),
  operational: Type.Optional(operational),
  audit: Type.Optional(gatewayAudit('gateway')),
  backends: Type.Optional(staticBackends(REPLACED.backends)),
  catalogGate: Type.Optional(catalogGate),
  codeMode: Type.Optional(codeMode),
  cors: Type.Optional(cors('gateway')),
  compositeTools: Type.Optional(workflows('gateway')),
  compositeToolRefs: Type.Optional(
    list(
      'Workflows of their own objects.',
      objectRef('gateway', 'VirtualMCPCompositeToolDefinition', 'A workflow, by name.'),
      { type: { map: ['name'] } },
    ),
  ),
  incomingAuth: Type.Optional(incomingAuth(REPLACED.incomingAuth)),
  outgoingAuth: Type.Optional(outgoingAuth(REPLACED.outgoingAuth)),
  optimizer: Type.Optional(optimizer),
  pinning: Type.Optional(gatewayPinning),
  rateLimiting: Type.Optional(rateLimiting('gateway')),
  sessionStorage: Type.Optional(plainSessionStorage('gateway')),
  telemetry: Type.Optional(telemetry(REPLACED.telemetry)),
  usage: Type.Optional(usage('gateway')),
})
