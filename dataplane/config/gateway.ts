import Type, { type Static, type TArray } from 'typebox'
import { allowedHostsInFile } from '../../crds/settings/allowed-hosts.ts'
import { dpop } from '../../crds/settings/auth/dpop.ts'
import { scopeImplies, scopeRules } from '../../crds/settings/auth/scope-rules.ts'
import { asFile, extended } from '../../crds/settings/file-form.ts'
import { aggregation } from '../../crds/settings/gateway/aggregation.ts'
import { catalogGate } from '../../crds/settings/gateway/catalog-gate.ts'
import { cors } from '../../crds/settings/gateway/cors.ts'
import { ENDPOINT_PREFIX } from '../../crds/settings/gateway/defaults.ts'
import { failureHandling } from '../../crds/settings/gateway/failure-handling.ts'
import { optimizer } from '../../crds/settings/gateway/optimizer.ts'
import { rateLimiting } from '../../crds/settings/gateway/rate-limits.ts'
import { serverCard } from '../../crds/settings/gateway/server-card.ts'
import { usage } from '../../crds/settings/gateway/usage.ts'
import { passthroughHeaders } from '../../crds/settings/headers.ts'
import { limits } from '../../crds/settings/limits.ts'
import { choice, duration, url } from '../../crds/settings/schema.ts'
import { gatewayAuditSchema } from './audit/audit.ts'
import { authServer } from './auth-server.ts'
import { credential } from './credential.ts'
import { authz } from './gateway-authz.ts'
import { oidc } from './gateway-oidc.ts'
import { pinning } from './pinning.ts'
import { redisSettings } from './redis.ts'
import { telemetrySchema } from './telemetry.ts'
import { compositeTools } from './workflow/definition.ts'

export type { AuthzConfig } from './gateway-authz.ts'
export type { OidcConfig } from './gateway-oidc.ts'

/**
 * The gateway's configuration file (YAML or JSON). The operator writes it; people may, too. File paths in it are
 * relative to the file's own folder. It holds references to secrets, never their values.
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
    pinning: Type.Optional(pinning),
    enforcesPins: Type.Optional(
      Type.Boolean({
        description: 'A proxy of ours that enforces pins of its own: an answer of it counts only if it says so.',
        default: false,
      }),
    ),
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

const failures = extended(asFile(failureHandling), {
  // A configuration file without the field keeps listing the backends that answer; the specification sets the kind's
  // default.
  partialFailureMode: Type.Optional(
    choice('gateway', 'Whether a list fails when one backend does.', ['fail', 'best_effort'], {
      default: 'best_effort',
    }),
  ),
})

const shortText = (description: string) => Type.String({ description, minLength: 1, maxLength: limits.url })

/** A backend as registries may know it. */
const gateMember = Type.Object(
  {
    backend: Type.String({ description: 'Name of the backend.', minLength: 1, maxLength: 253 }),
    name: Type.Optional(shortText('Name of its object; absent: that of the backend.')),
    uid: Type.Optional(shortText('UID of its Kubernetes object.')),
    server: Type.Optional(shortText('Name of the entry that it says it is.')),
    version: Type.Optional(shortText('Version of that entry; absent: any.')),
    url: Type.Optional(shortText('Where the server is, if it is somewhere else.')),
    image: Type.Optional(shortText('Image of the server, if it runs here.')),
  },
  strict,
)

const gateInFile = asFile(catalogGate)
const gateRegistry = extended(gateInFile.properties.registries.items, {
  url: url('gateway', 'Base URL of the registry server.'),
})

const gate = extended(gateInFile, {
  registries: Type.Optional({ ...gateInFile.properties.registries, items: gateRegistry } as unknown as TArray<
    typeof gateRegistry
  >),
  members: Type.Optional(
    Type.Array(gateMember, {
      description: 'The backends as registries may know them. One that is not among them is known by its URL.',
    }),
  ),
})

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
    allowedHosts: Type.Optional(asFile(allowedHostsInFile)),
    cors: Type.Optional(asFile(cors('gateway'))),
    serverCard: Type.Optional(asFile(serverCard('gateway'))),
    incomingAuth: Type.Object(
      {
        type: Type.Enum(['anonymous', 'oidc'], { type: 'string' }),
        oidc: Type.Optional(oidc),
        dpop: Type.Optional(asFile(dpop('gateway'))),
        scopeRules: Type.Optional(asFile(scopeRules)),
        scopeImplies: Type.Optional(asFile(scopeImplies)),
      },
      strict,
    ),
    authServer: Type.Optional(authServer),
    authz: Type.Optional(authz),
    backends: Type.Array(backend, { description: 'The backends, by name.' }),
    catalogGate: Type.Optional(gate),
    aggregation: Type.Optional(asFile(aggregation)),
    compositeTools: Type.Optional(compositeTools),
    passthroughHeaders: Type.Optional(asFile(passthroughHeaders('gateway'))),
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
    rateLimiting: Type.Optional(asFile(rateLimiting('gateway'))),
    optimizer: Type.Optional(asFile(optimizer)),
    timeouts: Type.Optional(
      Type.Object({ default: Type.Optional(duration('gateway', 'Longest wait for a backend.')) }, strict),
    ),
    failureHandling: Type.Optional(failures),
    telemetry: Type.Optional(telemetrySchema),
    audit: Type.Optional(gatewayAuditSchema),
    usage: Type.Optional(asFile(usage('gateway'))),
    logLevel: Type.Optional(Type.Enum(['debug', 'info', 'warn', 'error'], { type: 'string', default: 'info' })),
  },
  strict,
)

export type GatewayConfig = Static<typeof gatewayConfigSchema>
export type DpopConfig = NonNullable<GatewayConfig['incomingAuth']['dpop']>
export type OptimizerConfig = NonNullable<GatewayConfig['optimizer']>
export type BackendConfig = GatewayConfig['backends'][number]
export type StdioConfig = NonNullable<BackendConfig['stdio']>
export type CatalogGateConfig = NonNullable<GatewayConfig['catalogGate']>
export type CatalogRegistryConfig = NonNullable<CatalogGateConfig['registries']>[number]
