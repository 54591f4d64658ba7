/** The registry server's configuration as fields of MCPRegistry: sources, registries, auth and the rest. */
import { allowedHosts } from '../allowed-hosts.ts'
import { audit } from '../audit.ts'
import { httpsUnlessAllowed } from '../https.ts'
import { limits } from '../limits.ts'
import { caBundleRef, secretKeyRef } from '../references.ts'
import { choice, defaulted, flag, integer, label, list, map, object, type Reader, Type, text, url } from '../schema.ts'
import { telemetryParts } from '../telemetry.ts'
import { claims, source } from './registry-source.ts'

const registry = object('A registry: what consumers read under one name.', {
  name: label('registry', 'Unique name, used in paths.'),
  sources: list('Sources, most important first.', label('registry', 'Name of a source.'), { type: 'set', min: 1 }),
  claims: claims('registry', 'Claims that a caller needs to read it.'),
})

const provider = (readBy: Reader) =>
  object(
    'An issuer of tokens.',
    {
      name: label(readBy, 'Name of the provider.'),
      issuerUrl: url(readBy, 'Issuer, compared exactly with `iss`.'),
      audience: text(readBy, 'Required in `aud`.', { min: 1, max: limits.url }),
      jwksUrl: Type.Optional(url(readBy, 'Where the keys are. Absent: found by discovery.')),
      clientId: Type.Optional(text(readBy, 'Client id for introspection.', { min: 1 })),
      clientSecretRef: Type.Optional(secretKeyRef(readBy, 'Client secret for introspection.')),
      introspectionUrl: Type.Optional(url(readBy, 'Introspection endpoint (RFC 7662) for opaque tokens.')),
      caBundleRef: Type.Optional(caBundleRef(readBy, 'CA bundle for the provider.')),
      allowPrivateIP: defaulted(flag(readBy, 'It may resolve to a private address.', { default: false })),
      insecureAllowHTTP: defaulted(flag(readBy, 'It may be plain http beyond loopback.', { default: false })),
    },
    {
      rules: httpsUnlessAllowed(
        { name: 'issuerUrl' },
        { name: 'jwksUrl', optional: true },
        { name: 'introspectionUrl', optional: true },
      ),
    },
  )

const role = (readBy: Reader, description: string) =>
  Type.Optional(
    list(
      description,
      map('Claims that must all match; an array in the token matches by any element.', text(readBy, 'The value.'), {
        max: 32,
      }),
    ),
  )

const authz = (readBy: Reader) =>
  object(
    'Who may do what. Absent: every authenticated caller may do everything.',
    {
      roles: Type.Optional(
        object('Roles; a caller has one when any claim map of it matches.', {
          superAdmin: role(readBy, 'May do everything and sees everything.'),
          manageSources: role(readBy, 'Manages sources.'),
          manageRegistries: role(readBy, 'Manages registries.'),
          manageEntries: role(readBy, 'Publishes and deletes entries.'),
        }),
      ),
      unlabelled: defaulted(
        choice(readBy, 'Whether sources and registries without claims are open.', ['allow', 'deny'], {
          default: 'allow',
        }),
      ),
    },
    { readBy },
  )

const auth = object(
  'How callers are authenticated.',
  {
    mode: choice('registry', 'Tokens, or none at all (development).', ['oauth', 'anonymous']),
    oauth: Type.Optional(
      object('Token validation.', {
        resourceUrl: Type.Optional(url('registry', 'Public URL of this server.')),
        realm: Type.Optional(
          text('registry', 'Realm in the challenge.', { min: 1, max: limits.name, pattern: '^[^"\\\\\\r\\n]+$' }),
        ),
        providers: list('Issuers of tokens.', provider('registry'), { type: { map: ['name'] }, min: 1, max: 16 }),
      }),
    ),
    publicPaths: Type.Optional(
      list('Paths open without a token.', text('registry', 'A path.', { min: 1, max: limits.text, pattern: '^/' })),
    ),
    authz: Type.Optional(authz('registry')),
  },
  {
    rules: [
      {
        rule: "self.mode == 'oauth' ? has(self.oauth) : !has(self.oauth)",
        message: 'oauth must be set when mode is oauth, and only then',
      },
      {
        rule: "self.mode == 'oauth' || !(has(self.authz) || has(self.publicPaths))",
        message: 'authz and publicPaths are for mode oauth: everything is open in mode anonymous',
      },
    ],
  },
)

const database = (readBy: Reader) =>
  object(
    'PostgreSQL. Absent: a SQLite file in the pod.',
    {
      urlSecretRef: Type.Optional(secretKeyRef(readBy, 'Connection URL, with its password.')),
      host: Type.Optional(text(readBy, 'Host.', { min: 1, max: limits.name })),
      port: defaulted(integer(readBy, 'Port.', { minimum: 1, maximum: 65535, default: 5432 })),
      user: Type.Optional(text(readBy, 'User.', { min: 1, max: limits.label })),
      passwordSecretRef: Type.Optional(secretKeyRef(readBy, 'Password.')),
      database: Type.Optional(text(readBy, 'Database.', { min: 1, max: limits.label })),
      sslMode: Type.Optional(
        choice(readBy, 'TLS, as libpq’s sslmode; when left out that of the URL, or else require.', [
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

const bounds = (readBy: Reader) =>
  object('Limits of the server.', {
    bodyBytes: Type.Optional(integer(readBy, 'Largest request body; 1 MiB when left out.', { minimum: 1024 })),
    sourceBytes: Type.Optional(
      integer(readBy, 'Bytes that one source may have; 512 MiB when left out.', { minimum: 1024 }),
    ),
    managedBytes: Type.Optional(
      integer(readBy, 'Bytes of documents that one managed source may hold; 1 GiB when left out.', { minimum: 1024 }),
    ),
    privateSources: Type.Optional(
      choice(readBy, 'Whether sources created through the API may be at private addresses; deny when left out.', [
        'allow',
        'deny',
      ]),
    ),
  })

export const registryConfigFields = {
  sources: Type.Optional(list('Sources of entries.', source, { type: { map: ['name'] }, max: limits.list })),
  registries: Type.Optional(list('What consumers read.', registry, { type: { map: ['name'] }, max: limits.list })),
  auth: Type.Optional(auth),
  database: Type.Optional(database('registry')),
  telemetry: Type.Optional(
    object('Telemetry of the registry.', {
      ...telemetryParts({ signals: 'registry', mounts: 'operator' }),
      serviceName: Type.Optional(
        text('registry', 'OpenTelemetry `service.name`. Absent: the object’s name.', { min: 1, max: limits.name }),
      ),
    }),
  ),
  audit: Type.Optional(audit('registry')),
  cors: Type.Optional(
    object('Who may read from a browser.', {
      origins: list('Origins; `*` for all.', text('registry', 'An origin.', { min: 1, max: limits.url })),
    }),
  ),
  allowedHosts: Type.Optional(allowedHosts('registry')),
  limits: Type.Optional(bounds('registry')),
}

export const registryConfigNames = Object.keys(registryConfigFields)
