import { age, defineKind, type ObjectOf, phase, ready, reason, url } from '../define.ts'
import { allowedHosts } from '../settings/allowed-hosts.ts'
import { authServer } from '../settings/auth/auth-server.ts'
import { authzConfig } from '../settings/auth/authz.ts'
import { dpop } from '../settings/auth/dpop.ts'
import { scopeImplies, scopeRules } from '../settings/auth/scope-rules.ts'
import { upstreamFilter } from '../settings/auth/upstream-filter.ts'
import { countsUsers } from '../settings/gateway/rate-limits.ts'
import { serverCard } from '../settings/gateway/server-card.ts'
import { sessionStorage } from '../settings/gateway/session-storage.ts'
import { virtualMcpConfig } from '../settings/gateway/virtual-mcp-config.ts'
import { passthroughHeaders } from '../settings/headers.ts'
import { limits } from '../settings/limits.ts'
import { podSettings, resourceOverrides, resources } from '../settings/pod/pod.ts'
import { serviceRules } from '../settings/pod/service.ts'
import { objectRef, oidcConfigRef, telemetryConfigRef } from '../settings/references.ts'
import { blockFor, notBoth } from '../settings/rules.ts'
import { choice, defaulted, list, map, object, Type, text } from '../settings/schema.ts'
import { count, oneOf, statusText, workloadStatus } from '../settings/status.ts'

const incomingAuth = object(
  'How clients are authenticated.',
  {
    type: choice('gateway', 'anonymous: no authentication (for development); oidc: tokens.', ['anonymous', 'oidc']),
    oidcConfigRef: Type.Optional(oidcConfigRef('gateway')),
    audience: Type.Optional(text('gateway', 'Audience that a token must carry.', { min: 1, max: limits.url })),
    dpop: Type.Optional(dpop('gateway')),
    authzConfig: Type.Optional(authzConfig('gateway')),
    authzConfigRef: Type.Optional(objectRef('gateway', 'MCPAuthzConfig', 'Authorization policies.')),
    scopeRules: Type.Optional(scopeRules),
    scopeImplies: Type.Optional(scopeImplies),
  },
  {
    rules: [
      {
        rule: "self.type == 'oidc' || !has(self.scopeRules)",
        message: 'scopeRules are for type oidc: callers without a token have no scopes',
      },
      {
        rule: 'has(self.scopeRules) || !has(self.scopeImplies)',
        message: 'scopeImplies has no effect without scopeRules',
      },
      ...blockFor('type', { oidc: 'oidcConfigRef' }),
      {
        rule: "self.type == 'oidc' || !has(self.audience)",
        message: 'audience is for type oidc: type anonymous verifies no tokens',
      },
      {
        rule: "self.type == 'oidc' || !has(self.dpop)",
        message: 'dpop is for type oidc: type anonymous verifies no tokens',
      },
      {
        rule: '!has(self.audience) || !has(self.oidcConfigRef) || !has(self.oidcConfigRef.audience) || self.audience == self.oidcConfigRef.audience',
        message: 'audience and oidcConfigRef.audience differ: set one of them, or both alike',
      },
      notBoth('authzConfig', 'authzConfigRef'),
    ],
  },
)

const backendAuth = (description: string) =>
  object(
    description,
    {
      type: choice(
        'gateway',
        'discovered: what the backend’s own object names; externalAuthConfigRef: a configuration by name.',
        ['discovered', 'externalAuthConfigRef'],
      ),
      externalAuthConfigRef: Type.Optional(
        objectRef('gateway', 'MCPExternalAuthConfig', 'How the credential is obtained.'),
      ),
    },
    { rules: blockFor('type', { externalAuthConfigRef: 'externalAuthConfigRef' }) },
  )

const outgoingAuth = object('Credentials for the backends.', {
  source: defaulted(
    choice(
      'gateway',
      'discovered: what each backend’s own object names, unless it is listed here; inline: only what is listed here.',
      ['discovered', 'inline'],
      {
        default: 'discovered',
      },
    ),
  ),
  default: Type.Optional(backendAuth('For backends that are not listed.')),
  backends: Type.Optional(
    map('By backend: the name of a member of the group.', backendAuth('For this backend.'), { max: 256 }),
  ),
})

const discoveredBackend = object('A backend.', {
  name: statusText('Its name.', { min: 1, max: limits.name }),
  kind: Type.Optional(oneOf('Its kind.', ['MCPServer', 'MCPRemoteProxy', 'MCPServerEntry'])),
  url: Type.Optional(statusText('Its MCP endpoint.', { max: limits.url })),
  status: Type.Optional(oneOf('Its health.', ['ready', 'degraded', 'unavailable', 'unauthenticated', 'unknown'])),
  authConfigRef: Type.Optional(statusText('MCPExternalAuthConfig in force.', { max: limits.name })),
  authType: Type.Optional(statusText('Its type.', { max: limits.label })),
  mcpRevision: Type.Optional(statusText('Protocol revision that it speaks.', { max: 32 })),
  circuitBreakerState: Type.Optional(oneOf('State of its circuit breaker.', ['closed', 'open', 'half-open'])),
  message: Type.Optional(statusText('Explanation of its status.', { max: 32768 })),
})

export const virtualMcpServer = defineKind({
  kind: 'VirtualMCPServer',
  plural: 'virtualmcpservers',
  shortNames: ['vmcp'],
  description: 'The MCP servers of a group behind one endpoint.',
  role: 'workload',
  columns: [phase, url, { name: 'Backends', type: 'integer', jsonPath: '.status.backendCount' }, ready, reason, age],
  spec: object(
    'The gateway.',
    {
      groupRef: objectRef('operator', 'MCPGroup', 'The group whose members are the backends.'),
      incomingAuth,
      allowedHosts: Type.Optional(allowedHosts('gateway')),
      outgoingAuth: Type.Optional(outgoingAuth),
      authServerConfig: Type.Optional(authServer('gateway')),
      authServerUpstreamFilter: Type.Optional(upstreamFilter),
      telemetryConfigRef: Type.Optional(telemetryConfigRef()),
      config: Type.Optional(virtualMcpConfig),
      serverCard: Type.Optional(serverCard('gateway')),
      passthroughHeaders: Type.Optional(passthroughHeaders('gateway')),
      sessionStorage: Type.Optional(sessionStorage('gateway')),
      resources: resources('Resources of the gateway’s container.'),
      resourceOverrides,
      ...podSettings,
      embeddingServerRef: Type.Optional(
        objectRef(
          { refused: 'embedding servers are not run here; set config.optimizer.embeddingService' },
          'EmbeddingServer',
          'The embedding server.',
        ),
      ),
    },
    {
      rules: [
        ...serviceRules,
        {
          rule: '!has(self.config) || !has(self.config.groupRef) || self.config.groupRef == self.groupRef.name',
          message: 'config.groupRef must be the same as groupRef.name',
        },
        {
          rule: `!has(self.config) || !has(self.config.rateLimiting) || !${countsUsers('self.config.rateLimiting')} || self.incomingAuth.type == 'oidc'`,
          message: 'limits per user need callers with a name: incomingAuth.type oidc',
        },
        {
          rule: "!has(self.config) || !has(self.config.rateLimiting) || !has(self.replicas) || self.replicas <= 1 || (has(self.sessionStorage) && self.sessionStorage.provider == 'redis') || (has(self.config.sessionStorage) && self.config.sessionStorage.provider == 'redis')",
          message: 'rateLimiting with several replicas needs sessionStorage.provider redis',
        },
        {
          rule: "!has(self.authServerConfig) || self.incomingAuth.type == 'oidc'",
          message: 'authServerConfig needs incomingAuth.type oidc',
        },
        {
          rule: 'has(self.authServerConfig) || !has(self.authServerUpstreamFilter)',
          message: 'authServerUpstreamFilter needs authServerConfig',
        },
        {
          rule: "!has(self.embeddingServerRef) || !has(self.config) || !has(self.config.optimizer) || self.config.optimizer.embeddingProvider != 'openai'",
          message: 'embeddingServerRef excludes embeddingProvider openai',
        },
      ],
    },
  ),
  status: workloadStatus({
    compositeTools: Type.Optional(
      map(
        'The definitions of `config.compositeToolRefs` as they are served, as JSON by the names of their objects: if a changed one is invalid, its last good form stays in service.',
        statusText('The definition.', { max: 65_536 }),
        { max: limits.list },
      ),
    ),
    backendCount: Type.Optional(count('Number of backends that are not known to be unavailable.')),
    discoveredBackends: Type.Optional(
      list('The backends with their state; details are on `/status` of the pods.', discoveredBackend, {
        max: limits.statusNames,
      }),
    ),
  }),
})

export type VirtualMCPServer = ObjectOf<typeof virtualMcpServer>
