import Type, { type Static, type TArray } from 'typebox'
import { allowedHostsInFile } from '../../crds/settings/allowed-hosts.ts'
import { servedAuthz } from '../../crds/settings/auth/authz.ts'
import { dpop } from '../../crds/settings/auth/dpop.ts'
import { scopeImplies, scopeRules } from '../../crds/settings/auth/scope-rules.ts'
import { DIGEST_PATTERN } from '../../crds/settings/definition-digest.ts'
import { asFile, extend } from '../../crds/settings/file-form.ts'
import { aggregation } from '../../crds/settings/gateway/aggregation.ts'
import { catalogGate } from '../../crds/settings/gateway/catalog-gate.ts'
import { cors } from '../../crds/settings/gateway/cors.ts'
import { API_SERVER, ENDPOINT_PREFIX } from '../../crds/settings/gateway/defaults.ts'
import { failureHandling } from '../../crds/settings/gateway/failure-handling.ts'
import { optimizer } from '../../crds/settings/gateway/optimizer.ts'
import { rateLimiting } from '../../crds/settings/gateway/rate-limits.ts'
import { serverCard } from '../../crds/settings/gateway/server-card.ts'
import { usage } from '../../crds/settings/gateway/usage.ts'
import { workflows } from '../../crds/settings/gateway/workflow.ts'
import { passthroughHeaders } from '../../crds/settings/headers.ts'
import { limits } from '../../crds/settings/limits.ts'
import { choice, duration, object, url } from '../../crds/settings/schema.ts'
import { gatewayAuditSchema } from './audit/audit.ts'
import { authServer } from './auth-server.ts'
import { credential } from './credential.ts'
import { oidc } from './gateway-oidc.ts'
import { redisSettings } from './redis.ts'
import { telemetrySchema } from './telemetry.ts'

export type { OidcConfig } from './gateway-oidc.ts'

/**
 * The gateway's configuration file (YAML or JSON). Paths are relative to its folder. It holds references to secrets,
 * never their values.
 */

const strict = { additionalProperties: false }
const file = (description: string) => Type.String({ description, minLength: 1 })

const texts = (description: string) =>
  Type.Optional(
    Type.Unsafe<Record<string, string>>({ type: 'object', description, additionalProperties: { type: 'string' } }),
  )

const attach = object('A container. The gateway attaches to its standard input and output.', {
  server: Type.Optional(
    Type.String({
      description: 'The API server.',
      pattern: '^https?://',
      default: API_SERVER,
    }),
  ),
  namespace: Type.String({ minLength: 1 }),
  pod: Type.String({ minLength: 1 }),
  container: Type.String({ minLength: 1 }),
  tokenFile: file('Token for the API server; read again for each connection.'),
  caFile: Type.Optional(file('PEM file of CAs trusted for the API server, besides the system’s.')),
})

const stdio = object('A server on standard input and output: a command, or a container.', {
  command: Type.Optional(
    Type.Array(Type.String(), {
      minItems: 1,
      description: 'Program and arguments, run as a child process of the gateway.',
    }),
  ),
  cwd: Type.Optional(file('Folder in which the command runs; absent: that of this file.')),
  env: texts('Variables of the command, besides those of the gateway itself.'),
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
})

const digests = Type.Array(Type.String({ pattern: DIGEST_PATTERN }), { minItems: 1, maxItems: 1024 })

const byName = (description: string) =>
  Type.Optional(Type.Unsafe<Record<string, string[]>>({ type: 'object', description, additionalProperties: digests }))

const other = () => Type.Optional(Type.Enum(['withhold', 'allow'], { type: 'string', default: 'withhold' }))

/** The pins of one backend: the digests of definitions that were approved, and what happens to all others. */
const pinning = object('Definitions of this backend that were approved; absent: none is checked.', {
  mode: Type.Enum(['report', 'enforce'], {
    type: 'string',
    description: 'Whether definitions without a matching pin are withheld or only reported.',
  }),
  pins: Type.Optional(
    Type.Object(
      {
        instructions: Type.Optional(digests),
        tools: byName('Digests by the server’s own name of the tool.'),
        prompts: byName('Digests by the server’s own name of the prompt.'),
        resources: byName('Digests by URI.'),
        resourceTemplates: byName('Digests by URI template.'),
        pages: byName('Digests by the URI of an app’s page, over the `contents` of its read.'),
        unlisted: Type.Optional(
          object('Treatment of what has no pin; a bare resource has only its URI, name and type.', {
            tools: other(),
            prompts: other(),
            resources: Type.Optional(Type.Enum(['withhold', 'allow', 'bare'], { type: 'string', default: 'withhold' })),
            resourceTemplates: other(),
            instructions: other(),
            pages: other(),
          }),
        ),
      },
      strict,
    ),
  ),
})

const backend = Type.Object(
  {
    name: Type.String({ description: 'Name in the group, prefix of its tools.', minLength: 1, maxLength: 253 }),
    url: Type.Optional(
      Type.String({ description: 'MCP endpoint; required except with stdio.', pattern: '^https?://' }),
    ),
    transport: Type.Optional(
      Type.Enum(['streamable-http', 'sse', 'stdio'], { type: 'string', default: 'streamable-http' }),
    ),
    protocolEra: Type.Optional(
      Type.Enum(['auto', 'session', 'stateless'], {
        type: 'string',
        description: 'The era of MCP that the server speaks; `auto` asks the server.',
        default: 'auto',
      }),
    ),
    stdio: Type.Optional(stdio),
    caBundleFile: Type.Optional(file('PEM file of CAs trusted for this backend, besides the system’s.')),
    headers: texts('Headers added to each request to this backend.'),
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
        description:
          'The backend is a Portico proxy that enforces pins itself. The gateway accepts an answer only if the proxy confirms that.',
        default: false,
      }),
    ),
    timeout: Type.Optional(duration('gateway', 'Longest wait for this backend’s answer.')),
    allowPrivateIP: Type.Optional(
      Type.Boolean({
        description: 'Allows private addresses. Members in the cluster need it; remote ones must allow it.',
        default: true,
      }),
    ),
  },
  strict,
)

const failures = extend(asFile(failureHandling), {
  // The file keeps listing the backends that answer; the specification sets the kind's default.
  partialFailureMode: Type.Optional(
    choice('gateway', 'Whether a list fails when one backend fails.', ['fail', 'best_effort'], {
      default: 'best_effort',
    }),
  ),
})

const shortText = (description: string) => Type.String({ description, minLength: 1, maxLength: limits.url })

/** The identity of a backend in registries. */
const gateMember = Type.Object(
  {
    backend: Type.String({ description: 'Name of the backend.', minLength: 1, maxLength: 253 }),
    name: Type.Optional(shortText('Name of its object; absent: the name of the backend.')),
    uid: Type.Optional(shortText('UID of its Kubernetes object.')),
    server: Type.Optional(shortText('Name of the entry that the server claims to be.')),
    version: Type.Optional(shortText('Version of that entry; absent: any.')),
    url: Type.Optional(shortText('URL of the server, if it runs elsewhere.')),
    image: Type.Optional(shortText('Image of the server, if it runs here.')),
  },
  strict,
)

const gateInFile = asFile(catalogGate)
const gateRegistry = extend(gateInFile.properties.registries.items, {
  url: url('gateway', 'Base URL of the registry server.'),
})

const gate = extend(gateInFile, {
  registries: Type.Optional({ ...gateInFile.properties.registries, items: gateRegistry } as unknown as TArray<
    typeof gateRegistry
  >),
  members: Type.Optional(
    Type.Array(gateMember, {
      description:
        'The identities of backends in registries. A backend that is not listed here is identified by its URL.',
    }),
  ),
})

const authz = asFile(servedAuthz)
const compositeTools = workflows('gateway')

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
      object('The store of sessions. Without redis: in memory, for one replica.', {
        redis: Type.Optional(redisSettings),
        keyPrefix: Type.Optional(
          Type.String({
            description: 'Prefix of all keys in Redis; the same in all replicas, and in no other gateway.',
          }),
        ),
      }),
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
export type AuthzConfig = NonNullable<GatewayConfig['authz']>
export type PinningConfig = NonNullable<BackendConfig['pinning']>
export type CompositeToolConfig = NonNullable<GatewayConfig['compositeTools']>[number]
export type StepConfig = CompositeToolConfig['steps'][number]
export type RepeatedStepConfig = NonNullable<StepConfig['step']>
