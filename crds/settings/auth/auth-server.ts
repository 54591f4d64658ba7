/** The embedded authorization server: `authServerConfig` of a VirtualMCPServer, `embeddedAuthServer` of a config. */
import { inFile } from '../file-form.ts'
import { documentDefaults } from '../gateway/defaults.ts'
import { limits } from '../limits.ts'
import { redis } from '../redis.ts'
import { secretKeyRef } from '../references.ts'
import { blockFor, durationWithin, httpsUnlessAllowed } from '../rules.ts'
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
  scope,
  Type,
  text,
  url,
} from '../schema.ts'
import { lifespanBounds } from './bounds.ts'
import { tokenDpop } from './dpop.ts'
import { delegateClients, INBOUND_GRANT_RULES, inboundGrants } from './inbound-grants.ts'
import { spiffeTrustDomains } from './spiffe.ts'
import { trustedIssuers } from './trusted-issuers.ts'
import { upstreamProviders } from './upstream.ts'

/** An issuer (RFC 8414): http or https, no query, no fragment, no slash at the end (endpoints are appended). */
export const issuerUrl = (readBy: Reader, description: string) =>
  url(readBy, description, {
    rules: [
      { rule: "!self.contains('?') && !self.contains('#')", message: 'must have no query and no fragment' },
      { rule: "!self.endsWith('/')", message: 'must be written without the slash at its end' },
    ],
  })

const secretRefs = (readBy: Reader, description: string) =>
  list(description, secretKeyRef(readBy, 'A key of a Secret.'), { max: 5 })

const tokenLifespans = (readBy: Reader) => {
  const lifespan = (name: keyof typeof lifespanBounds, description: string, more = '') => {
    const { from, to, usual } = lifespanBounds[name]
    return defaulted(
      duration(readBy, `${description}, from ${from} to ${to}${more}.`, {
        default: usual,
        rules: [durationWithin(from, to)],
      }),
    )
  }
  return object('Lifetimes of issued tokens.', {
    accessTokenLifespan: lifespan('accessTokenLifespan', 'Access tokens'),
    refreshTokenLifespan: lifespan('refreshTokenLifespan', 'Refresh tokens', '; each rotation restarts it'),
    authCodeLifespan: lifespan('authCodeLifespan', 'Authorization codes'),
  })
}

export const storageType = (readBy: Reader, options: { readonly default?: 'memory' } = {}) =>
  choice(readBy, 'Kind of storage.', ['memory', 'redis'], options)

const storage = (readBy: Reader) =>
  object(
    'Storage of sessions, registrations and upstream tokens.',
    {
      type: defaulted(storageType(readBy, { default: 'memory' })),
      redis: Type.Optional(redis(readBy)),
    },
    { rules: blockFor('type', { redis: 'redis' }) },
  )

const cimd = (readBy: Reader) =>
  object('Client identifier metadata documents.', {
    enabled: flag(readBy, 'Accept an https URL as client id.', { default: false }),
    cacheMaxSize: Type.Optional(
      integer(
        readBy,
        `Number of cached documents, in 32 MiB at most; ${documentDefaults.cacheMaxSize} when left out.`,
        { minimum: 1 },
      ),
    ),
    cacheFallbackTtl: Type.Optional(
      duration(
        readBy,
        `How long a document that does not say so is cached; \`${documentDefaults.cacheFallbackTtl}\` when left out.`,
      ),
    ),
  })

const RULES = [
  ...httpsUnlessAllowed('issuer'),
  {
    rule: 'size(self.upstreamProviders) > 0 || has(self.inboundGrants) || (has(self.trustedIssuers) && self.trustedIssuers.exists(issuer, has(issuer.jwtBearerGrant)))',
    message: 'upstreamProviders must not be empty without inboundGrants: nobody could get a token',
  },
  {
    rule: '!has(self.primaryUpstreamProvider) || self.upstreamProviders.exists(provider, provider.name == self.primaryUpstreamProvider)',
    message: 'primaryUpstreamProvider must name one of upstreamProviders',
  },
  {
    rule: "has(self.primaryProviders) || (has(self.primaryUpstreamProvider) ? self.upstreamProviders.all(provider, provider.name != self.primaryUpstreamProvider || !has(provider.loginPolicy) || provider.loginPolicy == 'required') : size(self.upstreamProviders) == 0 || [self.upstreamProviders[0]].all(provider, !has(provider.loginPolicy) || provider.loginPolicy == 'required'))",
    message: 'loginPolicy of the provider that says who users are must be required',
  },
  {
    rule: "has(self.primaryProviders) || (has(self.primaryUpstreamProvider) ? self.upstreamProviders.all(provider, provider.name != self.primaryUpstreamProvider || provider.type != 'key') : size(self.upstreamProviders) == 0 || self.upstreamProviders[0].type != 'key')",
    message: 'the provider that says who users are must not be a key',
  },
  {
    rule: '!(has(self.primaryProviders) && has(self.primaryUpstreamProvider))',
    message: 'primaryProviders and primaryUpstreamProvider exclude each other',
  },
  {
    rule: "!has(self.primaryProviders) || self.primaryProviders.all(name, self.upstreamProviders.exists(provider, provider.name == name && provider.type != 'key' && (!has(provider.loginPolicy) || provider.loginPolicy == 'required')))",
    message: 'primaryProviders must name providers of upstreamProviders whose loginPolicy is required, and no keys',
  },
  {
    rule: 'self.upstreamProviders.all(provider, !has(provider.emailDomains) || (has(self.primaryProviders) && size(self.primaryProviders) > 1 && provider.name in self.primaryProviders))',
    message: 'emailDomains are for providers that primaryProviders names beside others: only there is a choice',
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
  {
    rule: "!has(self.inboundGrants) || !has(self.inboundGrants.tokenExchange) || !has(self.inboundGrants.tokenExchange.delegateClients) || self.issuer.startsWith('https://')",
    message: 'delegateClients of inboundGrants need an https issuer',
  },
  ...INBOUND_GRANT_RULES,
  {
    rule: "!has(self.trustedIssuers) || self.trustedIssuers.all(issuer, !has(issuer.jwtBearerGrant) || !has(issuer.jwtBearerGrant.linkTo) || self.upstreamProviders.exists(provider, provider.name == issuer.jwtBearerGrant.linkTo && provider.type == 'oidc'))",
    message: 'linkTo of jwtBearerGrant must name a provider of type oidc',
  },
  {
    rule: "!has(self.inboundGrants) || !has(self.inboundGrants.jwtBearer) || !has(self.inboundGrants.jwtBearer.issuerPolicies) || self.inboundGrants.jwtBearer.issuerPolicies.all(policy, !has(policy.linkTo) || self.upstreamProviders.exists(provider, provider.name == policy.linkTo && provider.type == 'oidc'))",
    message: 'linkTo of inboundGrants.jwtBearer must name a provider of type oidc',
  },
]

const settings = (readBy: Reader) => ({
  issuer: issuerUrl(readBy, 'Issuer of the tokens; all endpoints derive from it.'),
  authorizationEndpointBaseUrl: Type.Optional(
    issuerUrl(readBy, 'Replaces the issuer in `authorization_endpoint` of the discovery document, and only there.'),
  ),
  signingKeySecretRefs: Type.Optional(
    inFile(
      'signingKeyFiles',
      secretRefs(
        readBy,
        'Private keys (PEM); the first signs, the rest verify. Absent: a generated key, which is lost at a restart.',
      ),
    ),
  ),
  hmacSecretRefs: Type.Optional(
    secretRefs(
      readBy,
      'Secrets of at least 32 bytes for codes, refresh tokens and cookies; the first is in force. Absent: generated, and lost at a restart.',
    ),
  ),
  tokenLifespans: Type.Optional(tokenLifespans(readBy)),
  upstreamProviders: defaulted(upstreamProviders(readBy)),
  primaryUpstreamProvider: Type.Optional(label(readBy, 'Provider that identifies users. Absent: the first.')),
  primaryProviders: Type.Optional(
    list(
      'Providers that identify users. Each login visits one of them first. The user chooses it on a page, by an e-mail address if there are `emailDomains`.',
      label(readBy, 'The name of one of `upstreamProviders`.'),
      { min: 1, max: 8, type: 'set' },
    ),
  ),
  baselineClientScopes: Type.Optional(list('Scopes that every registered client gets.', scope(readBy), { max: 10 })),
  cimd: Type.Optional(cimd(readBy)),
  allowConfidentialClientRegistration: defaulted(
    flag(readBy, 'Clients may register with a secret.', { default: false }),
  ),
  allowPrivateKeyJWTRegistration: defaulted(
    flag(readBy, 'Clients may register with a key of their own (`private_key_jwt`).', { default: false }),
  ),
  forceConfidentialRedirectUris: Type.Optional(
    list(
      'Redirect URIs whose clients are registered as confidential.',
      text(readBy, 'An https URI.', { max: limits.url, pattern: '^https://[^\\s#]+$' }),
      { max: 10 },
    ),
  ),
  insecureAllowConfidentialOverLoopbackHTTP: defaulted(
    flag(readBy, 'Allow confidential clients even if the issuer is http on loopback.', { default: false }),
  ),
  insecureAllowHTTP: defaulted(flag(readBy, 'The issuer may be plain http beyond loopback.', { default: false })),
  delegateClients: Type.Optional(delegateClients(readBy)),
  trustedIssuers: Type.Optional(trustedIssuers(readBy)),
  dpop: Type.Optional(tokenDpop(readBy)),
  inboundGrants: Type.Optional(inboundGrants(readBy)),
  spiffeTrustDomains: Type.Optional(spiffeTrustDomains(readBy)),
})

export const authServer = (readBy: Reader) =>
  object(
    'The embedded authorization server.',
    {
      ...settings(readBy),
      storage: Type.Optional(storage(readBy)),
      disableUpstreamTokenInjection: defaulted(
        flag(readBy, 'Do not send the tokens that providers issue at login to backends.', { default: false }),
      ),
    },
    { rules: RULES },
  )

/** The part that a configuration file has too: everything except the storage and what the operator acts on. */
export const authServerSettings = object('The embedded authorization server. Absent: none.', settings('gateway'))
