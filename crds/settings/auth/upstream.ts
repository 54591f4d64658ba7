/** Identity providers at which the embedded authorization server logs users in. */

import { keyCheckDefaults, keyDefaults } from '../gateway/defaults.ts'
import { HEADER_NAME } from '../header-rules.ts'
import { distinctHeaderKeys, headerKeys, headerValue } from '../headers.ts'
import { limits } from '../limits.ts'
import { caBundleRef, secretKeyRef } from '../references.ts'
import { blockFor, durationUpTo, exactlyOne, httpsOrLoopback, httpsUnlessAllowed } from '../rules.ts'
import {
  choice,
  defaulted,
  duration,
  flag,
  integer,
  label,
  list,
  map,
  object,
  type Reader,
  scope,
  Type,
  text,
  url,
} from '../schema.ts'
import { ownParameters } from './bounds.ts'

/** GET or POST, case-insensitive. Patterns in CRDs have no flags. */
const HTTP_METHOD = '^([Gg][Ee][Tt]|[Pp][Oo][Ss][Tt])$'

const path = (readBy: Reader, description: string) => text(readBy, description, { min: 1, max: limits.name })

const scopes = (readBy: Reader, description = 'Scopes to request.') =>
  Type.Optional(list(description, scope(readBy, limits.url)))

const fieldNames = (readBy: Reader, description: string) =>
  Type.Optional(list(description, path(readBy, 'A field name.'), { max: 16 }))

const userInfo = (readBy: Reader, description: string) =>
  object(description, {
    endpointUrl: url(readBy, 'Endpoint that returns the user, called with the access token.'),
    httpMethod: Type.Optional(
      text(readBy, 'GET or POST, in any case; GET when left out.', { max: 4, pattern: HTTP_METHOD }),
    ),
    additionalHeaders: Type.Optional(
      map('Headers of that request.', headerValue(readBy, 'The value.'), { rules: [headerKeys, distinctHeaderKeys] }),
    ),
    fieldMapping: Type.Optional(
      object('Fields of the answer. The first one that is present counts.', {
        subjectFields: fieldNames(readBy, 'Fields tried for the subject; `sub` when left out.'),
        nameFields: fieldNames(readBy, 'Fields tried for the name; `name` when left out.'),
        emailFields: fieldNames(readBy, 'Fields tried for the e-mail address; `email` when left out.'),
      }),
    ),
  })

const additionalAuthorizationParams = (readBy: Reader) =>
  Type.Optional(
    map('Further parameters of the authorization request.', text(readBy, 'The value.'), {
      max: 16,
      rules: [
        {
          rule: `!self.exists(name, name in [${ownParameters.map((name) => `'${name}'`).join(', ')}])`,
          message: `these parameters are set by the server itself: ${ownParameters.join(', ')}`,
        },
      ],
    }),
  )

/** Portico's own fields that both kinds of provider have. */
const connection = (readBy: Reader) => ({
  allowPrivateIPs: defaulted(flag(readBy, 'The provider may resolve to a private address.', { default: false })),
  insecureAllowHTTP: defaulted(flag(readBy, 'The provider may be plain http beyond loopback.', { default: false })),
  caBundleRef: Type.Optional(caBundleRef(readBy, 'CAs trusted for the provider besides the system’s.')),
})

const dcrConfig = (readBy: Reader) =>
  object(
    'Registers a client at the provider (RFC 7591), one for all replicas, instead of using a given one.',
    {
      discoveryUrl: Type.Optional(url(readBy, 'Metadata document that names the registration endpoint.')),
      registrationEndpoint: Type.Optional(url(readBy, 'The registration endpoint.')),
      initialAccessTokenRef: Type.Optional(secretKeyRef(readBy, 'Initial access token (RFC 7591, section 3).')),
      softwareId: Type.Optional(text(readBy, '`software_id` of the registration.', { max: 256 })),
      softwareStatement: Type.Optional(
        text(readBy, '`software_statement` of the registration.', { max: limits.program }),
      ),
    },
    {
      rules: [
        exactlyOne('discoveryUrl', 'registrationEndpoint'),
        ...httpsOrLoopback('discoveryUrl?', 'registrationEndpoint?'),
      ],
    },
  )

const oauth2Config = (readBy: Reader) =>
  object(
    'A provider that speaks OAuth 2 without OpenID Connect.',
    {
      authorizationEndpoint: url(readBy, 'Page to which users are sent.'),
      tokenEndpoint: url(readBy, 'Endpoint that exchanges codes for tokens.'),
      clientId: Type.Optional(text(readBy, 'Client id.', { min: 1 })),
      clientSecretRef: Type.Optional(secretKeyRef(readBy, 'Client secret. Absent: a public client.')),
      dcrConfig: Type.Optional(dcrConfig(readBy)),
      scopes: scopes(readBy),
      redirectUri: Type.Optional(
        url(
          readBy,
          'Callback; when left out `{issuer}/oauth/callback`, or with several `oauth2` providers `{issuer}/oauth/callback/{name}`.',
        ),
      ),
      userInfo: Type.Optional(userInfo(readBy, 'How the user is identified.')),
      tokenResponseMapping: Type.Optional(
        object('Paths in a nested token response (dot notation).', {
          accessTokenPath: Type.Optional(path(readBy, 'Path of the access token; `access_token` when left out.')),
          scopePath: Type.Optional(path(readBy, 'Path of the scope; `scope` when left out.')),
          refreshTokenPath: Type.Optional(path(readBy, 'Path of the refresh token; `refresh_token` when left out.')),
          expiresInPath: Type.Optional(path(readBy, 'Path of the lifetime in seconds; `expires_in` when left out.')),
        }),
      ),
      identityFromToken: Type.Optional(
        object('The user from the token response (dot notation); a path may lead on into the payload of a JWT.', {
          subjectPath: path(readBy, 'Path of the subject.'),
          namePath: Type.Optional(path(readBy, 'Path of the name.')),
          emailPath: Type.Optional(path(readBy, 'Path of the e-mail address.')),
        }),
      ),
      additionalAuthorizationParams: additionalAuthorizationParams(readBy),
      ...connection(readBy),
    },
    {
      rules: [
        ...httpsUnlessAllowed('authorizationEndpoint', 'tokenEndpoint'),
        exactlyOne('clientId', 'dcrConfig'),
        {
          rule: '!(has(self.clientSecretRef) && has(self.dcrConfig))',
          message: 'clientSecretRef is not used with dcrConfig',
        },
      ],
    },
  )

const oidcConfig = (readBy: Reader) =>
  object(
    'An OpenID Connect provider.',
    {
      issuerUrl: url(readBy, 'Issuer; its endpoints are found by discovery.'),
      clientId: text(readBy, 'Client id.', { min: 1 }),
      clientSecretRef: Type.Optional(secretKeyRef(readBy, 'Client secret. Absent: a public client.')),
      scopes: scopes(readBy, 'Scopes to request; `openid` and `offline_access` when left out.'),
      redirectUri: Type.Optional(url(readBy, 'Callback; `{issuer}/oauth/callback` when left out.')),
      subjectClaim: Type.Optional(
        text(readBy, 'Claim used as subject; `sub` when left out.', { min: 1, max: limits.name }),
      ),
      userInfoOverride: Type.Optional(
        userInfo(readBy, 'Another endpoint for name and e-mail address. The ID token identifies the user.'),
      ),
      additionalAuthorizationParams: additionalAuthorizationParams(readBy),
      ...connection(readBy),
    },
    { rules: httpsUnlessAllowed('issuerUrl') },
  )

const keyConfig = (readBy: Reader) =>
  object('A key that each user has of their own, and enters once on a page of the gateway.', {
    title: text(readBy, 'Name of what the key is for, such as `Jira`.', { min: 1, max: 80 }),
    helpUrl: Type.Optional(
      text(readBy, 'Page that tells how to get a key.', { max: limits.url, pattern: '^https://[^\\s]+$' }),
    ),
    pattern: Type.Optional(text(readBy, 'Regular expression (RE2) that a whole key matches.', { min: 1, max: 256 })),
    maxLength: defaulted(
      integer(readBy, 'Longest key, in characters.', { minimum: 1, maximum: 4096, default: keyDefaults.maxLength }),
    ),
    headerName: defaulted(
      text(readBy, 'Header that carries it to backends.', {
        min: 1,
        max: limits.headerName,
        pattern: HEADER_NAME,
        default: keyDefaults.headerName,
      }),
    ),
    valueTemplate: defaulted(
      text(readBy, 'Value of the header; `{key}` is the key.', {
        min: 5,
        max: 256,
        pattern: '^[ -~]*[{]key[}][ -~]*$',
        default: keyDefaults.valueTemplate,
      }),
    ),
    verify: Type.Optional(
      object(
        'A request that tests the key before it is stored, so that users learn at once of a wrong one.',
        {
          url: text(readBy, 'URL of the request; https, or http on loopback.', {
            max: limits.url,
            pattern: '^https?://[^\\s]+$',
          }),
          method: defaulted(choice(readBy, 'Its method.', ['GET', 'HEAD'], { default: keyCheckDefaults.method })),
          expectStatus: defaulted(
            list('Statuses that mean the key is good.', integer(readBy, 'A status.', { minimum: 100, maximum: 599 }), {
              min: 1,
              max: 16,
              default: keyCheckDefaults.expectStatus,
            }),
          ),
          timeout: defaulted(
            duration(readBy, 'Longest wait, at most 30s.', {
              default: keyCheckDefaults.timeout,
              rules: [durationUpTo('30s')],
            }),
          ),
        },
        { rules: httpsOrLoopback('url') },
      ),
    ),
    maxLifetime: Type.Optional(
      duration(readBy, 'Time after which the user must enter the key again, at most 8760h. Absent: never.', {
        rules: [durationUpTo('8760h')],
      }),
    ),
    remindBefore: defaulted(
      duration(readBy, 'How long before its end the page of keys shows a reminder.', {
        default: keyDefaults.remindBefore,
      }),
    ),
  })

const provider = (readBy: Reader) =>
  object(
    'An identity provider, or a key that each user has.',
    {
      name: label(readBy, 'Name, used by `providerName` and `subjectProviderName`.'),
      type: choice(readBy, 'Protocol, or `key`: each user enters a key of their own once.', ['oidc', 'oauth2', 'key']),
      oidcConfig: Type.Optional(oidcConfig(readBy)),
      oauth2Config: Type.Optional(oauth2Config(readBy)),
      keyConfig: Type.Optional(keyConfig(readBy)),
      loginPolicy: Type.Optional(
        choice(
          readBy,
          'Whether users visit this provider at every login, or when a call needs it. Absent: at every login; a key when a call needs it.',
          ['required', 'onDemand'],
        ),
      ),
      tokensPer: Type.Optional(
        choice(
          readBy,
          'Whether tokens that a user links on demand belong to that login or to the user. Those of a user serve any client, and assertions. Absent: to the login; a key belongs to its user.',
          ['login', 'user'],
        ),
      ),
      emailDomains: Type.Optional(
        list(
          'Domains of e-mail addresses whose owners log in here, if there are several `primaryProviders`. An address only chooses the provider: it proves nothing.',
          text(readBy, 'A domain: `example.com`, without those below it.', {
            min: 3,
            max: 253,
            pattern: '^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+$',
          }),
          { min: 1, max: 100, type: 'set' },
        ),
      ),
    },
    {
      rules: [
        ...blockFor('type', { oidc: 'oidcConfig', oauth2: 'oauth2Config', key: 'keyConfig' }),
        {
          rule: "self.type != 'key' || !has(self.loginPolicy) || self.loginPolicy == 'onDemand'",
          message: 'loginPolicy of a key is onDemand: no login has anything to visit',
        },
        {
          rule: "self.type != 'key' || !has(self.tokensPer) || self.tokensPer == 'user'",
          message: 'tokensPer of a key is user',
        },
        {
          rule: "self.type == 'key' || !has(self.tokensPer) || self.tokensPer == 'login' || (has(self.loginPolicy) && self.loginPolicy == 'onDemand')",
          message: 'tokensPer user needs loginPolicy onDemand: what a login visits is kept with that login',
        },
      ],
    },
  )

export const upstreamProviders = (readBy: Reader) =>
  list(
    'Identity providers, visited in this order. None: nobody logs in here, and tokens come by other grants.',
    provider(readBy),
    { type: { map: ['name'] }, max: 16, default: [] },
  )
