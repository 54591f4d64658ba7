import Type, { type Static } from 'typebox'
import { toolShaping } from '../../crds/shared/gateway/aggregation.ts'
import { TOOL_PREFIX } from '../../crds/shared/gateway/defaults.ts'
import { failureDefaults } from '../../crds/shared/gateway/failure-defaults.ts'
import { ENDPOINT_PREFIX } from '../../crds/shared/gateway/prefix-pattern.ts'
import { rateLimiting } from '../../crds/shared/gateway/rate-limits.ts'
import { duration } from '../../crds/shared/schema.ts'
import { gatewayAuditSchema } from './audit/audit.ts'
import { authServer } from './auth-server.ts'
import { credential } from './credential.ts'
import { authz } from './gateway-authz.ts'
import { oidc } from './gateway-oidc.ts'
import { redisSettings } from './redis.ts'
import { optimizer } from './search/optimizer.ts'
import { telemetrySchema } from './telemetry/telemetry.ts'
import { compositeTools } from './workflow/definition.ts'

export type { AuthzConfig } from './gateway-authz.ts'
export type { OidcConfig } from './gateway-oidc.ts'

/**
 * The gateway's configuration file (YAML or JSON). The operator writes it; people may. File paths in it are relative
 * to the file's own folder. It holds references to secrets, never their values.
 */

const strict = { additionalProperties: false }
const file = (description: string) => Type.String({ description, minLength: 1 })

const attach = Type.Object(
  {
    server: Type.Optional(
      Type.String({
        description: 'The API server.',
        pattern: '^https?://',
        default: 'https://kubernetes.default.svc',
      }),
    ),
    namespace: Type.String({ minLength: 1 }),
    pod: Type.String({ minLength: 1 }),
    container: Type.String({ minLength: 1 }),
    tokenFile: file('Token for the API server; read anew for each connection.'),
    caFile: Type.Optional(file('PEM file of CAs trusted for the API server, besides the system’s.')),
  },
  { ...strict, description: 'A container whose standard input and output are attached to.' },
)

const stdio = Type.Object(
  {
    command: Type.Optional(
      Type.Array(Type.String(), { minItems: 1, description: 'Program and arguments, run as our child.' }),
    ),
    cwd: Type.Optional(file('Folder in which the command runs; absent: that of this file.')),
    env: Type.Optional(
      Type.Unsafe<Record<string, string>>({
        type: 'object',
        description: 'Variables of the command, besides those that the gateway was given.',
        additionalProperties: { type: 'string' },
      }),
    ),
    envFiles: Type.Optional(
      Type.Array(
        Type.Object(
          { name: Type.String({ minLength: 1 }), file: file('The value; surrounding white space is dropped.') },
          strict,
        ),
        { description: 'Variables of the command whose values are in files.' },
      ),
    ),
    attach: Type.Optional(attach),
  },
  { ...strict, description: 'How a server on standard input and output is reached: a command, or a container.' },
)

const backend = Type.Object(
  {
    name: Type.String({ description: 'Name in the group, prefix of its tools.', minLength: 1, maxLength: 253 }),
    url: Type.Optional(Type.String({ description: 'MCP endpoint; required but for stdio.', pattern: '^https?://' })),
    transport: Type.Optional(
      Type.Enum(['streamable-http', 'sse', 'stdio'], { type: 'string', default: 'streamable-http' }),
    ),
    protocolEra: Type.Optional(
      Type.Enum(['auto', 'session', 'stateless'], {
        type: 'string',
        description: 'The era that the server speaks; auto asks it.',
        default: 'auto',
      }),
    ),
    stdio: Type.Optional(stdio),
    caBundleFile: Type.Optional(file('PEM file of CAs trusted for this backend, besides the system’s.')),
    headers: Type.Optional(
      Type.Unsafe<Record<string, string>>({
        type: 'object',
        description: 'Headers added to each request to this backend.',
        additionalProperties: { type: 'string' },
      }),
    ),
    headerFiles: Type.Optional(
      Type.Array(
        Type.Object(
          {
            name: Type.String({ minLength: 1 }),
            file: file('The value; surrounding white space is dropped.'),
            prefix: Type.Optional(Type.String({ description: 'Text before the value, such as `Bearer `.' })),
          },
          strict,
        ),
        { description: 'Headers whose values are in files.' },
      ),
    ),
    credential: Type.Optional(credential),
    timeout: Type.Optional(duration('gateway', 'Longest wait for this backend’s answer.')),
    allowPrivateIP: Type.Optional(
      Type.Boolean({
        description:
          'May resolve to a private address. Members of the cluster do; remote ones only where it is allowed.',
        default: true,
      }),
    ),
  },
  strict,
)

const { circuitBreaker: breakerDefaults } = failureDefaults

const circuitBreaker = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean({ default: breakerDefaults.enabled })),
    failureThreshold: Type.Optional(
      Type.Integer({
        minimum: 1,
        default: breakerDefaults.failureThreshold,
        description: 'Failures in a row that open it.',
      }),
    ),
    timeout: Type.Optional(duration('gateway', 'How long it stays open.', { default: breakerDefaults.timeout })),
  },
  { ...strict, description: 'Absent: a usual one.' },
)

const failureHandling = Type.Object(
  {
    healthCheckInterval: Type.Optional(
      duration('gateway', 'Between two probes of a backend.', { default: failureDefaults.healthCheckInterval }),
    ),
    healthCheckTimeout: Type.Optional(
      duration('gateway', 'Longest wait for the gateway’s own requests.', {
        default: failureDefaults.healthCheckTimeout,
      }),
    ),
    unhealthyThreshold: Type.Optional(
      Type.Integer({
        minimum: 1,
        default: failureDefaults.unhealthyThreshold,
        description: 'Failures in a row that make a backend unhealthy.',
      }),
    ),
    partialFailureMode: Type.Optional(
      Type.Enum(['fail', 'best_effort'], {
        type: 'string',
        default: 'best_effort',
        description: 'Whether lists fail while a backend is away.',
      }),
    ),
    circuitBreaker: Type.Optional(circuitBreaker),
  },
  { ...strict, description: 'What happens when backends fail.' },
)

const shaping = Type.Object({ workload: Type.String({ minLength: 1 }), ...toolShaping('gateway') }, strict)

export const gatewayConfigSchema = Type.Object(
  {
    name: Type.String({ description: 'Name of the workload; clients get it as the server’s name.', minLength: 1 }),
    namespace: Type.String({ minLength: 1 }),
    role: Type.Enum(['gateway', 'proxy'], {
      type: 'string',
      default: 'gateway',
      description: 'A proxy has one backend and renames nothing.',
    }),
    resourceUrl: Type.Optional(
      Type.String({
        description: 'Public URL of the MCP endpoint, the `resource` of RFC 9728.',
        pattern: '^https?://',
      }),
    ),
    endpointPrefix: Type.Optional(
      Type.String({
        description:
          'Path under which a proxy in front shows this listener; requests are served with and without it, and public URLs contain it.',
        pattern: ENDPOINT_PREFIX,
      }),
    ),
    trustProxyHeaders: Type.Optional(
      Type.Boolean({
        description:
          'Public URLs come from X-Forwarded-Host, -Proto, -Port and -Prefix, where the host is in allowedHosts; clients are distinguished by the last address in X-Forwarded-For.',
        default: false,
      }),
    ),
    allowedHosts: Type.Optional(
      Type.Array(Type.String(), {
        description: 'Host names answered to, besides those of the listeners and of resourceUrl; `*` answers to all.',
      }),
    ),
    cors: Type.Optional(
      Type.Object(
        {
          origins: Type.Optional(
            Type.Array(Type.String({ minLength: 1 }), {
              description: 'Origins as browsers send them, such as `https://app.example.com`; `*` for all.',
            }),
          ),
        },
        { ...strict, description: 'Pages in browsers that may call the MCP endpoint. Absent: none of other hosts.' },
      ),
    ),
    incomingAuth: Type.Object(
      { type: Type.Enum(['anonymous', 'oidc'], { type: 'string' }), oidc: Type.Optional(oidc) },
      strict,
    ),
    authServer: Type.Optional(authServer),
    authz: Type.Optional(authz),
    backends: Type.Array(backend, { description: 'The backends, by name.' }),
    aggregation: Type.Optional(
      Type.Object(
        {
          conflictResolution: Type.Optional(
            Type.Enum(['prefix', 'priority', 'manual'], { type: 'string', default: 'prefix' }),
          ),
          conflictResolutionConfig: Type.Optional(
            Type.Object(
              {
                prefixFormat: Type.Optional(Type.String({ default: TOOL_PREFIX })),
                priorityOrder: Type.Optional(
                  Type.Array(Type.String({ minLength: 1 }), {
                    description: 'Backends, most important first; those that are not named come last.',
                  }),
                ),
              },
              strict,
            ),
          ),
          defaultToolVisibility: Type.Optional(
            Type.Enum(['allow', 'deny'], {
              type: 'string',
              default: 'allow',
              description: 'Whether the tools of a backend that `tools` does not name are shown.',
            }),
          ),
          excludeAllTools: Type.Optional(Type.Boolean({ default: false })),
          tools: Type.Optional(Type.Array(shaping)),
        },
        strict,
      ),
    ),
    compositeTools: Type.Optional(compositeTools),
    passthroughHeaders: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        description: 'Headers of a client’s request that are passed on with its call; never credentials.',
      }),
    ),
    sessionStorage: Type.Optional(
      Type.Object(
        {
          redis: Type.Optional(redisSettings),
          keyPrefix: Type.Optional(
            Type.String({ description: 'Before the names of all keys; all replicas have the same, no other gateway.' }),
          ),
        },
        { ...strict, description: 'Where sessions are known. Without redis: in memory, for one replica.' },
      ),
    ),
    rateLimiting: Type.Optional(rateLimiting('gateway')),
    optimizer: Type.Optional(optimizer),
    timeouts: Type.Optional(
      Type.Object({ default: Type.Optional(duration('gateway', 'Longest wait for a backend.')) }, strict),
    ),
    failureHandling: Type.Optional(failureHandling),
    telemetry: Type.Optional(telemetrySchema),
    audit: Type.Optional(gatewayAuditSchema),
    logLevel: Type.Optional(Type.Enum(['debug', 'info', 'warn', 'error'], { type: 'string', default: 'info' })),
  },
  strict,
)

export type GatewayConfig = Static<typeof gatewayConfigSchema>
export type BackendConfig = GatewayConfig['backends'][number]
export type StdioConfig = NonNullable<BackendConfig['stdio']>
