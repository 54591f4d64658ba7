/** Settings that MCPServer and MCPRemoteProxy share: both are one server behind one proxy. */

import { allowedHosts } from './allowed-hosts.ts'
import { audit } from './audit.ts'
import { authzConfig } from './authz.ts'
import { limits } from './limits.ts'
import { podSettings, resourceOverrides } from './pod.ts'
import { countsUsers, rateLimiting } from './rate-limits.ts'
import { authServerRef, objectRef, oidcConfigRef, telemetryConfigRef } from './references.ts'
import { type CelRule, defaulted, flag, integer, Type, text } from './schema.ts'
import { sessionStorage } from './session-storage.ts'
import { notBoth } from './union.ts'

export const proxySettings = {
  proxyPort: defaulted(integer('operator', 'Port of the Service.', { minimum: 1, maximum: 65535, default: 8080 })),
  allowedHosts: Type.Optional(allowedHosts('proxy')),
  groupRef: Type.Optional(objectRef('operator', 'MCPGroup', 'The group that it is a member of.')),
  oidcConfigRef: Type.Optional(oidcConfigRef('proxy')),
  telemetryConfigRef: Type.Optional(telemetryConfigRef()),
  toolConfigRef: Type.Optional(objectRef('proxy', 'MCPToolConfig', 'Which tools are shown and how.')),
  externalAuthConfigRef: Type.Optional(
    objectRef('later', 'MCPExternalAuthConfig', 'How the credential towards the server is got.'),
  ),
  authServerRef: Type.Optional(authServerRef('later')),
  authzConfig: Type.Optional(authzConfig('later')),
  authzConfigRef: Type.Optional(objectRef('later', 'MCPAuthzConfig', 'Authorization policies.')),
  audit: Type.Optional(audit('later')),
  endpointPrefix: Type.Optional(
    text('later', 'Path that stands before the endpoint in the URLs told to clients.', {
      max: limits.url,
      pattern: '^(/[^\\s?#]*)?$',
    }),
  ),
  trustProxyHeaders: defaulted(flag('later', 'Believe X-Forwarded-* of a proxy in front.', { default: false })),
  sessionStorage: Type.Optional(sessionStorage('proxy')),
  rateLimiting: Type.Optional(rateLimiting('later')),
  resourceOverrides,
  ...podSettings,
}

/** Rules over the fields above. */
export const proxyRules: readonly CelRule[] = [
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
