/** The embedded authorization server: `authServerConfig` of a VirtualMCPServer, type `embeddedAuthServer` of a config. */
import { httpsUnlessAllowed } from '../https.ts'
import { limits } from '../limits.ts'
import { redis } from '../redis.ts'
import { secretKeyRef } from '../references.ts'
import {
  choice,
  defaulted,
  duration,
  flag,
  integer,
  label,
  list,
  object,
  type Reader,
  Type,
  text,
  url,
} from '../schema.ts'
import { blockFor } from '../union.ts'
import { trustedIssuers } from './trusted-issuers.ts'
import { upstreamProviders } from './upstream.ts'

/** An issuer (RFC 8414): http or https, no query, no fragment. No slash at the end: endpoints are made by appending. */
export const issuerUrl = (readBy: Reader, description: string) =>
  url(readBy, description, {
    rules: [
      { rule: "!self.contains('?') && !self.contains('#')", message: 'must have no query and no fragment' },
      { rule: "!self.endsWith('/')", message: 'must be written without the slash at its end' },
    ],
  })

const secretRefs = (readBy: Reader, description: string, max: number) =>
  Type.Optional(list(description, secretKeyRef(readBy, 'A key of a Secret.'), { max }))

const tokenLifespans = (readBy: Reader) => {
  const lifespan = (description: string, from: string, to: string, value: string) =>
    defaulted(
      duration(readBy, `${description}, from ${from} to ${to}.`, {
        default: value,
        rules: [
          {
            rule: `duration(self) >= duration('${from}') && duration(self) <= duration('${to}')`,
            message: `must be from ${from} to ${to}`,
          },
        ],
      }),
    )
  return object('How long issued tokens live.', {
    accessTokenLifespan: lifespan('Access tokens', '1m', '24h', '1h'),
    refreshTokenLifespan: lifespan('Refresh tokens', '1h', '720h', '168h'),
    authCodeLifespan: lifespan('Authorization codes', '30s', '10m', '10m'),
  })
}

const storage = (readBy: Reader) =>
  object(
    'Where sessions, registrations and upstream tokens are kept.',
    {
      type: defaulted(choice(readBy, 'Kind of storage.', ['memory', 'redis'], { default: 'memory' })),
      redis: Type.Optional(redis(readBy)),
    },
    { rules: blockFor('type', { redis: 'redis' }) },
  )

const cimd = (readBy: Reader) =>
  object('Client identifier metadata documents.', {
    enabled: flag(readBy, 'Accept an https URL as client id.', { default: false }),
    cacheMaxSize: Type.Optional(integer(readBy, 'Documents that are kept.', { minimum: 1 })),
    cacheFallbackTtl: Type.Optional(duration(readBy, 'How long a document is kept that does not say it.')),
  })

const delegateClients = (readBy: Reader) =>
  list(
    'Confidential clients that may exchange tokens.',
    object('A client.', {
      clientId: text(readBy, 'Client id.', { min: 1, max: 256 }),
      clientSecretRef: secretKeyRef(readBy, 'Client secret.'),
      audiences: list('Audiences that it may ask for.', text(readBy, 'An audience.', { min: 1, max: limits.url }), {
        min: 1,
        max: 10,
      }),
      scopes: list('Scopes that it may ask for.', text(readBy, 'A scope.', { min: 1, max: limits.name }), {
        min: 1,
        max: 10,
      }),
    }),
    { type: { map: ['clientId'] }, max: 10 },
  )

const RULES = [
  ...httpsUnlessAllowed({ name: 'issuer' }),
  {
    rule: '!has(self.primaryUpstreamProvider) || self.upstreamProviders.exists(provider, provider.name == self.primaryUpstreamProvider)',
    message: 'primaryUpstreamProvider must name one of upstreamProviders',
  },
  {
    rule: "has(self.primaryUpstreamProvider) ? self.upstreamProviders.all(provider, provider.name != self.primaryUpstreamProvider || !has(provider.loginPolicy) || provider.loginPolicy == 'required') : [self.upstreamProviders[0]].all(provider, !has(provider.loginPolicy) || provider.loginPolicy == 'required')",
    message: 'loginPolicy of the provider that says who users are must be required',
  },
  {
    rule: '!(self.allowConfidentialClientRegistration && self.insecureAllowHTTP)',
    message: 'allowConfidentialClientRegistration and insecureAllowHTTP exclude each other',
  },
  {
    rule: '!has(self.forceConfidentialRedirectUris) || self.allowConfidentialClientRegistration',
    message: 'forceConfidentialRedirectUris needs allowConfidentialClientRegistration',
  },
  {
    rule: "!has(self.delegateClients) || self.issuer.startsWith('https://')",
    message: 'delegateClients need an https issuer',
  },
]

export const authServer = (readBy: Reader) =>
  object(
    'The embedded authorization server.',
    {
      issuer: issuerUrl(readBy, 'Issuer of the tokens; all endpoints derive from it.'),
      authorizationEndpointBaseUrl: Type.Optional(
        issuerUrl(readBy, 'Replaces the issuer in `authorization_endpoint` of the discovery document, and only there.'),
      ),
      signingKeySecretRefs: secretRefs(
        readBy,
        'Private keys (PEM); the first signs, the rest verify. Absent: a key that is lost at a restart.',
        5,
      ),
      hmacSecretRefs: secretRefs(
        readBy,
        'Secrets for codes, refresh tokens and cookies; the first is in force. Absent: lost at a restart.',
        5,
      ),
      tokenLifespans: Type.Optional(tokenLifespans(readBy)),
      upstreamProviders: upstreamProviders(readBy),
      primaryUpstreamProvider: Type.Optional(
        label(readBy, 'Provider whose identity stands for the user. Absent: the first.'),
      ),
      storage: Type.Optional(storage(readBy)),
      baselineClientScopes: Type.Optional(
        list(
          'Scopes that every registered client gets.',
          text(readBy, 'A scope.', { min: 1, max: limits.name, pattern: '^[!#-\\[\\]-~]+$' }),
          { max: 10 },
        ),
      ),
      cimd: Type.Optional(cimd(readBy)),
      allowConfidentialClientRegistration: defaulted(
        flag(readBy, 'Clients may register with a secret.', { default: false }),
      ),
      forceConfidentialRedirectUris: Type.Optional(
        list(
          'Redirect URIs whose clients are made confidential.',
          text(readBy, 'An https URI.', { max: limits.url, pattern: '^https://[^\\s#]+$' }),
          { max: 10 },
        ),
      ),
      insecureAllowConfidentialOverLoopbackHTTP: defaulted(
        flag(readBy, 'Confidential clients also while the issuer is http on loopback.', { default: false }),
      ),
      insecureAllowHTTP: defaulted(flag(readBy, 'The issuer may be plain http beyond loopback.', { default: false })),
      delegateClients: Type.Optional(delegateClients(readBy)),
      trustedIssuers: Type.Optional(trustedIssuers(readBy)),
      disableUpstreamTokenInjection: defaulted(
        flag(readBy, 'Tokens that providers give at login are not sent to backends.', { default: false }),
      ),
    },
    { rules: RULES },
  )
