/** `spec.config` of a VirtualMCPServer, the settings of the gateway itself. */
import { conflictResolutionConfig, toolShaping } from './aggregation.ts'
import { gatewayAudit } from './audit.ts'
import { authzClaims, cedarPolicies, entitiesJson } from './authz.ts'
import { headerName, headerValue, passthroughHeaders } from './headers.ts'
import { limits } from './limits.ts'
import { rateLimiting } from './rate-limits.ts'
import { objectRef } from './references.ts'
import {
  choice,
  decimal,
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
} from './schema.ts'
import { plainSessionStorage } from './session-storage.ts'
import { SAMPLING_RATE } from './telemetry.ts'
import { blockFor } from './union.ts'
import { workflows } from './workflow.ts'

const aggregation = object(
  'How the tools of all backends become one set.',
  {
    conflictResolution: defaulted(
      choice(
        'gateway',
        'What happens when two backends have a tool of the same name.',
        ['prefix', 'priority', 'manual'],
        {
          default: 'prefix',
          laterValues: ['priority', 'manual'],
        },
      ),
    ),
    conflictResolutionConfig: Type.Optional(conflictResolutionConfig('gateway', 'later')),
    defaultToolVisibility: defaulted(
      choice('gateway', 'Whether the tools of a backend that `tools` does not name are shown.', ['allow', 'deny'], {
        default: 'allow',
        laterValues: ['deny'],
      }),
    ),
    excludeAllTools: Type.Optional(flag('gateway', 'Show no backend’s tools.', { default: false })),
    tools: Type.Optional(
      list(
        'What is shown of which backend.',
        object('A backend.', {
          workload: objectName('gateway', 'Name of the backend.'),
          ...toolShaping('gateway'),
          toolConfigRef: Type.Optional(objectRef('gateway', 'MCPToolConfig', 'Shared filter and overrides.')),
        }),
        { type: { map: ['workload'] } },
      ),
    ),
  },
  {
    rules: [
      {
        rule: "self.conflictResolution != 'priority' || (has(self.conflictResolutionConfig) && has(self.conflictResolutionConfig.priorityOrder) && size(self.conflictResolutionConfig.priorityOrder) > 0)",
        message: 'conflictResolution priority needs conflictResolutionConfig.priorityOrder',
      },
    ],
  },
)

const circuitBreaker = (readBy: Reader) =>
  object('Stops calling a backend that keeps failing.', {
    enabled: defaulted(flag(readBy, 'Use a circuit breaker.', { default: false })),
    failureThreshold: defaulted(integer(readBy, 'Failures that open it.', { minimum: 1, default: 5 })),
    timeout: defaulted(
      duration(readBy, 'How long it stays open.', {
        default: '60s',
        rules: [{ rule: "duration(self) >= duration('1s')", message: 'timeout must be at least 1s' }],
      }),
    ),
  })

const failureHandling = (readBy: Reader) =>
  object(
    'What happens when backends fail.',
    {
      healthCheckInterval: defaulted(duration(readBy, 'Time between two probes of a backend.', { default: '30s' })),
      healthCheckTimeout: defaulted(duration(readBy, 'Longest wait for a probe.', { default: '10s' })),
      statusReportingInterval: defaulted(duration(readBy, 'Time between two reports.', { default: '30s' })),
      unhealthyThreshold: defaulted(
        integer(readBy, 'Failed probes that make a backend unhealthy.', { minimum: 1, default: 3 }),
      ),
      partialFailureMode: defaulted(
        choice(readBy, 'Whether a list fails when one backend does.', ['fail', 'best_effort'], { default: 'fail' }),
      ),
      circuitBreaker: Type.Optional(circuitBreaker(readBy)),
    },
    {
      rules: [
        {
          rule: 'duration(self.healthCheckTimeout) < duration(self.healthCheckInterval)',
          message: 'healthCheckTimeout must be shorter than healthCheckInterval',
        },
      ],
    },
  )

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
  failureHandling: Type.Optional(failureHandling('later')),
})

const optimizer = (readBy: Reader) =>
  object(
    'Tool search: clients see `find_tool` and `call_tool` in place of all tools.',
    {
      embeddingProvider: defaulted(
        choice(readBy, 'Protocol of the embedding service.', ['tei', 'openai'], { default: 'tei' }),
      ),
      embeddingService: Type.Optional(url(readBy, 'Embedding service. Absent: full-text search alone.')),
      embeddingModel: Type.Optional(text(readBy, 'Model.', { max: limits.name })),
      embeddingServiceTimeout: defaulted(duration(readBy, 'Longest wait for it.', { default: '30s' })),
      embeddingHeaders: Type.Optional(
        map(
          'Headers of its requests.',
          text(readBy, 'The value.', { min: 1, max: limits.headerValue, pattern: '^[^\\x00-\\x1f\\x7f]*$' }),
          {
            max: 32,
            rules: [
              {
                rule: "self.all(name, name.matches('^[!#$%&*+.^_|~0-9A-Za-z-]+$') && !(name.lowerAscii() in ['authorization', 'content-type']))",
                message: 'keys must be header names other than Authorization and Content-Type',
              },
            ],
          },
        ),
      ),
      maxToolsToReturn: Type.Optional(
        integer(readBy, 'Most tools that a search gives; 8 when left out.', { minimum: 1, maximum: 50 }),
      ),
      hybridSearchSemanticRatio: Type.Optional(decimal(readBy, 'Weight of meaning against words, 0 to 1.')),
      semanticDistanceThreshold: Type.Optional(decimal(readBy, 'Largest distance of a match, 0 to 2.')),
    },
    {
      readBy,
      rules: [
        {
          rule: "!has(self.embeddingHeaders) || self.embeddingProvider == 'openai'",
          message: 'embeddingHeaders are for embeddingProvider openai',
        },
      ],
    },
  )

const CODE_MODE = { refused: 'scripts in the gateway are not supported' } as const

const codeMode = object('Scripts that call several tools.', {
  enabled: defaulted(flag(CODE_MODE, 'Offer it.', { default: false })),
  parallelMaxConcurrency: defaulted(integer(CODE_MODE, 'Calls at the same time.', { minimum: 1, default: 10 })),
  stepLimit: defaulted(integer(CODE_MODE, 'Steps of a script.', { minimum: 1, default: 100000 })),
  toolCallTimeout: defaulted(duration(CODE_MODE, 'Longest wait for a call.', { default: '30s' })),
})

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
  object('How clients are authenticated, in the gateway’s own words.', {
    type: choice(readBy, 'How clients are authenticated.', ['anonymous', 'oidc']),
    oidc: Type.Optional(
      object('Token validation.', {
        issuer: url(readBy, 'Issuer.'),
        clientId: Type.Optional(text(readBy, 'Client id for introspection.')),
        clientSecretEnv: secretFromEnv(readBy, 'Environment variable with the client secret.'),
        audience: text(readBy, 'Required in `aud`.', { min: 1, max: limits.url }),
        resource: Type.Optional(url(readBy, 'Resource URL.')),
        scopes: Type.Optional(list('Scopes told to clients.', text(readBy, 'A scope.', { min: 1, max: limits.name }))),
        jwksUrl: Type.Optional(url(readBy, 'Where the keys are.')),
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
          text(readBy, 'Provider whose claims are judged.', { max: limits.label }),
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
  object('Credentials towards backends, in the gateway’s own words.', {
    source: choice(readBy, 'Where credentials are configured.', ['discovered', 'inline']),
    default: Type.Optional(strategy(readBy, 'For backends that are not listed.')),
    backends: Type.Optional(map('By backend.', strategy(readBy, 'For this backend.'))),
  })

const telemetry = (readBy: Reader) =>
  object('Telemetry, in the gateway’s own words.', {
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

export const virtualMcpConfig = object('Settings of the gateway.', {
  name: Type.Optional(
    text('gateway', 'Name told to clients. Absent: the object’s name.', { min: 1, max: limits.name }),
  ),
  groupRef: Type.Optional(objectName('operator', 'The group; the same as `spec.groupRef.name`.')),
  metadata: Type.Optional(map('Metadata of the gateway.', text('later', 'A value.'))),
  passthroughHeaders: Type.Optional(passthroughHeaders('later')),
  aggregation: Type.Optional(aggregation),
  operational: Type.Optional(operational),
  audit: Type.Optional(gatewayAudit('later')),
  backends: Type.Optional(staticBackends('later')),
  codeMode: Type.Optional(codeMode),
  compositeTools: Type.Optional(workflows('later')),
  compositeToolRefs: Type.Optional(
    list(
      'Workflows of their own objects.',
      objectRef('later', 'VirtualMCPCompositeToolDefinition', 'A workflow, by name.'),
      { type: { map: ['name'] } },
    ),
  ),
  incomingAuth: Type.Optional(incomingAuth('later')),
  outgoingAuth: Type.Optional(outgoingAuth('later')),
  optimizer: Type.Optional(optimizer('later')),
  rateLimiting: Type.Optional(rateLimiting('later')),
  sessionStorage: Type.Optional(plainSessionStorage('gateway', 'later')),
  telemetry: Type.Optional(telemetry('later')),
})
