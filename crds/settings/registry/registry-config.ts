/** The registry server's configuration as fields of MCPRegistry and of its file. */
import { allowedHosts } from '../allowed-hosts.ts'
import { audit } from '../audit.ts'
import { inFile } from '../file-form.ts'
import { limits } from '../limits.ts'
import { caBundleRef, secretKeyRef } from '../references.ts'
import { blockFor, httpsUnlessAllowed } from '../rules.ts'
import { bytes, choice, defaulted, flag, integer, label, list, object, Type, text, url } from '../schema.ts'
import { ownTelemetry } from '../telemetry.ts'
import { claims, source } from './registry-source.ts'

export const DEFAULT_BODY_BYTES = 1024 * 1024
export const DEFAULT_SOURCE_BYTES = 512 * 1024 * 1024
export const DEFAULT_MANAGED_BYTES = 1024 * 1024 * 1024
export const DEFAULT_REALM = 'mcp-registry'

export const registry = object('A registry: sources that consumers read under one name.', {
  name: label('registry', 'Unique name, used in paths.'),
  sources: list('Sources, most important first.', label('registry', 'Name of a source.'), { type: 'set', min: 1 }),
  claims: Type.Optional(
    claims('Claims that a caller needs to read it; absent or empty: every authenticated caller may.'),
  ),
})

const provider = object(
  'An issuer of tokens.',
  {
    name: label('registry', 'Unique name.'),
    issuerUrl: url('registry', 'Issuer, compared exactly with `iss`.'),
    audience: text('registry', 'Required in `aud`.', { min: 1, max: limits.url }),
    jwksUrl: Type.Optional(url('registry', 'URL of the keys. Absent: found by discovery.')),
    clientId: Type.Optional(text('registry', 'Client id for introspection.', { min: 1 })),
    clientSecretRef: Type.Optional(secretKeyRef('registry', 'Client secret for introspection.')),
    introspectionUrl: Type.Optional(
      url(
        'registry',
        'Introspection endpoint (RFC 7662) for opaque tokens. Absent, with a client secret: found by discovery.',
      ),
    ),
    caBundleRef: Type.Optional(
      inFile('caCertPath', caBundleRef('registry', 'CAs trusted for the provider, besides the system’s.')),
    ),
    allowPrivateIP: defaulted(flag('registry', 'It may resolve to a private address.', { default: false })),
    insecureAllowHTTP: defaulted(flag('registry', 'It may be plain http beyond loopback.', { default: false })),
  },
  {
    rules: httpsUnlessAllowed('issuerUrl', 'jwksUrl?', 'introspectionUrl?'),
  },
)

// An empty map would match everybody, so that a slip would make every caller an administrator.
const role = (description: string) =>
  Type.Optional(
    list(description, claims('Claims that must all match; an array in the token matches by any element.', { min: 1 }), {
      max: 256,
    }),
  )

const roles = {
  superAdmin: role('May do everything and sees everything.'),
  manageSources: role('Manages sources.'),
  manageRegistries: role('Manages registries.'),
  manageEntries: role('Publishes and deletes entries.'),
  readGates: role('Reads the gates of registries: which servers they have, and with which claims.'),
}
export type Role = keyof typeof roles
export const ROLES = Object.keys(roles) as readonly Role[]

export const auth = object(
  'Authentication and authorization of callers.',
  {
    mode: choice('registry', 'oauth: callers need tokens; anonymous: everything is open (for development).', [
      'oauth',
      'anonymous',
    ]),
    oauth: Type.Optional(
      object('Token validation.', {
        resourceUrl: Type.Optional(url('registry', 'Public URL of this server, as clients get it.')),
        realm: Type.Optional(
          text('registry', `Realm in the challenge; ${DEFAULT_REALM} when left out.`, {
            min: 1,
            max: limits.name,
            pattern: '^[^"\\\\\\r\\n]+$',
          }),
        ),
        providers: list('Issuers of tokens.', provider, { type: { map: ['name'] }, min: 1, max: 16 }),
      }),
    ),
    publicPaths: Type.Optional(
      list(
        'Paths, with all below them, that are open without a token.',
        text('registry', 'A path.', { min: 1, max: limits.text, pattern: '^/' }),
      ),
    ),
    authz: Type.Optional(
      object(
        'Authorization of callers. Absent: every authenticated caller may do everything.',
        {
          roles: Type.Optional(object('Roles. A caller has a role if any of its claim maps matches.', roles)),
          unlabelled: defaulted(
            choice(
              'registry',
              'Whether sources and registries without claims are open to every authenticated caller.',
              ['allow', 'deny'],
              { default: 'allow' },
            ),
          ),
        },
        { readBy: 'registry' },
      ),
    ),
  },
  {
    rules: [
      ...blockFor('mode', { oauth: 'oauth' }),
      {
        rule: "self.mode == 'oauth' || !(has(self.authz) || has(self.publicPaths))",
        message: 'authz and publicPaths are for mode oauth: everything is open in mode anonymous',
      },
    ],
  },
)

const database = object(
  'PostgreSQL. Absent: a SQLite file in the pod.',
  {
    urlSecretRef: Type.Optional(inFile('urlFile', secretKeyRef('registry', 'Connection URL, with its password.'))),
    host: Type.Optional(text('registry', 'Host.', { min: 1, max: limits.name })),
    port: defaulted(integer('registry', 'Port.', { minimum: 1, maximum: 65535, default: 5432 })),
    user: Type.Optional(text('registry', 'User.', { min: 1, max: limits.label })),
    passwordSecretRef: Type.Optional(inFile('passwordFile', secretKeyRef('registry', 'Password.'))),
    database: Type.Optional(text('registry', 'Database.', { min: 1, max: limits.label })),
    sslMode: Type.Optional(
      choice('registry', 'TLS, as libpq’s sslmode; when left out that of the URL, or else require.', [
        'disable',
        'allow',
        'prefer',
        'require',
        'verify-ca',
        'verify-full',
      ]),
    ),
  },
  {
    rules: [
      {
        rule: 'has(self.urlSecretRef) != (has(self.host) && has(self.user) && has(self.database))',
        message: 'set urlSecretRef, or host, user and database',
      },
      {
        rule: '!has(self.urlSecretRef) || !(has(self.host) || has(self.user) || has(self.database) || has(self.passwordSecretRef) || self.port != 5432)',
        message: 'host, port, user, passwordSecretRef and database are part of the URL of urlSecretRef',
      },
    ],
  },
)

const bounds = object('Limits of the server.', {
  bodyBytes: Type.Optional(bytes('registry', 'Largest request body; 1 MiB when left out.', { minimum: 1024 })),
  sourceBytes: Type.Optional(
    bytes(
      'registry',
      'Bytes that one source may have; 512 MiB when left out. The sync of a larger one fails, and its earlier entries stay.',
      { minimum: 1024 },
    ),
  ),
  managedBytes: Type.Optional(
    bytes(
      'registry',
      'Bytes of documents that one managed source may hold; 1 GiB when left out. Beyond them publications are refused.',
      { minimum: 1024 },
    ),
  ),
  privateSources: Type.Optional(
    choice('registry', 'Whether sources created through the API may be at private addresses; deny when left out.', [
      'allow',
      'deny',
    ]),
  ),
})

export const registryConfig = object('The configuration of a registry.', {
  sources: Type.Optional(list('Sources of entries.', source, { type: { map: ['name'] }, max: limits.list })),
  registries: Type.Optional(
    list('Registries that consumers read.', registry, { type: { map: ['name'] }, max: limits.list }),
  ),
  auth: Type.Optional(auth),
  database: Type.Optional(database),
  telemetry: Type.Optional(ownTelemetry),
  audit: Type.Optional(audit('registry')),
  cors: Type.Optional(
    object('Web pages that may read the catalog.', {
      origins: list('Origins; `*` for all.', text('registry', 'An origin.', { min: 1, max: limits.url })),
    }),
  ),
  allowedHosts: Type.Optional(allowedHosts('registry')),
  limits: Type.Optional(bounds),
})

export const registryConfigNames = Object.keys(registryConfig.properties)
