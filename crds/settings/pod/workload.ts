/** Settings that MCPServer and MCPRemoteProxy share: both are one server behind one proxy. */
import { allowedHosts } from '../allowed-hosts.ts'
import { audit } from '../audit.ts'
import { authzConfig } from '../auth/authz.ts'
import { dpop } from '../auth/dpop.ts'
import { extend } from '../file-form.ts'
import { cors } from '../gateway/cors.ts'
import { pinning } from '../gateway/pinning.ts'
import { countsUsers, rateLimiting } from '../gateway/rate-limits.ts'
import { serverCard } from '../gateway/server-card.ts'
import { sessionStorage } from '../gateway/session-storage.ts'
import { usage } from '../gateway/usage.ts'
import { limits } from '../limits.ts'
import { authServerRef, objectRef, oidcConfigRef, telemetryConfigRef } from '../references.ts'
import { notBoth } from '../rules.ts'
import { type CelRule, defaulted, flag, integer, type Reader, Type, text } from '../schema.ts'
import { podSettings, resourceOverrides } from './pod.ts'
import { serviceRules } from './service.ts'

/** The path before the endpoint, as people write it. It may be empty and may end in a slash. */
const endpointPrefix = (readBy: Reader) =>
  text(
    readBy,
    'Path under which a proxy in front shows the endpoint. Public URLs contain it; requests are served with and without it.',
    { max: limits.text, pattern: '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?$' },
  )

export const proxySettings = {
  proxyPort: defaulted(integer('operator', 'Port of the Service.', { minimum: 1, maximum: 65535, default: 8080 })),
  allowedHosts: Type.Optional(allowedHosts('proxy')),
  cors: Type.Optional(cors('proxy')),
  serverCard: Type.Optional(serverCard('proxy')),
  groupRef: Type.Optional(objectRef('operator', 'MCPGroup', 'The group that it is a member of.')),
  oidcConfigRef: Type.Optional(extend(oidcConfigRef('proxy'), { dpop: Type.Optional(dpop('proxy')) })),
  telemetryConfigRef: Type.Optional(telemetryConfigRef()),
  toolConfigRef: Type.Optional(objectRef('proxy', 'MCPToolConfig', 'Which tools are shown and how.')),
  externalAuthConfigRef: Type.Optional(
    objectRef('gateway', 'MCPExternalAuthConfig', 'How the credential for the server is obtained.'),
  ),
  authServerRef: Type.Optional(authServerRef('proxy')),
  authzConfig: Type.Optional(authzConfig('proxy')),
  authzConfigRef: Type.Optional(objectRef('proxy', 'MCPAuthzConfig', 'Authorization policies.')),
  audit: Type.Optional(audit('proxy')),
  endpointPrefix: Type.Optional(endpointPrefix('proxy')),
  trustProxyHeaders: defaulted(
    flag(
      'proxy',
      'Build the URLs for clients from X-Forwarded-Host, -Proto, -Port and -Prefix of a proxy in front, if the host is in `allowedHosts`. The headers have no other effect, and none beside `oidcConfigRef.resourceUrl`.',
      { default: false },
    ),
  ),
  pinning: Type.Optional(pinning('proxy')),
  sessionStorage: Type.Optional(sessionStorage('proxy')),
  rateLimiting: Type.Optional(rateLimiting('proxy')),
  usage: Type.Optional(usage('proxy')),
  resourceOverrides,
  ...podSettings,
}

export const proxyRules: readonly CelRule[] = [
  ...serviceRules,
  {
    rule: '!has(self.serverCard) || !has(self.serverCard.catalog) || !self.serverCard.catalog || !has(self.endpointPrefix)',
    message: 'serverCard.catalog must be left out with an endpointPrefix: a host has one catalog',
  },
  notBoth('authzConfig', 'authzConfigRef'),
  {
    rule: `!has(self.rateLimiting) || !${countsUsers('self.rateLimiting')} || has(self.oidcConfigRef) || has(self.externalAuthConfigRef) || has(self.authServerRef)`,
    message: 'limits per user need callers with a name: set oidcConfigRef',
  },
  {
    rule: "!has(self.rateLimiting) || !has(self.replicas) || self.replicas <= 1 || (has(self.sessionStorage) && self.sessionStorage.provider == 'redis')",
    message: 'rateLimiting with several replicas needs sessionStorage.provider redis',
  },
]
