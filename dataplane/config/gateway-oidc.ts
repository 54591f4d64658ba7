import { oidcIssuer } from '../../crds/settings/auth/oidc.ts'
import { asFile } from '../../crds/settings/file-form.ts'
import { API_SERVER } from '../../crds/settings/gateway/defaults.ts'
import { limits } from '../../crds/settings/limits.ts'
import { oidcConfigRef } from '../../crds/settings/references.ts'
import { object, type Static, Type, text, url } from '../../crds/settings/schema.ts'

const file = (description: string) => Type.String({ description, minLength: 1 })

/** The API server of a cluster, which issues tokens of ServiceAccounts and has their keys. */
export const cluster = object('The cluster whose API server issues the tokens: issuer and keys are read from itself.', {
  apiServer: Type.Optional(
    Type.String({
      description: 'The API server.',
      pattern: '^https?://[^/]+/?$',
      default: API_SERVER,
    }),
  ),
  tokenFile: file('Token for the API server; read again each time, and sent nowhere else.'),
  caFile: Type.Optional(file('PEM file of CAs trusted for the API server, besides the system’s.')),
})

const serviceAccount = object('The ServiceAccount whose tokens are accepted. Absent: every subject.', {
  namespace: Type.String({ minLength: 1, maxLength: 63 }),
  name: Type.Optional(
    Type.String({ description: 'Absent: all ServiceAccounts of the namespace.', minLength: 1, maxLength: 253 }),
  ),
})

const { introspectionUrl, clientId, clientSecretFile, ...issuer } = asFile(oidcIssuer).properties
const { scopes } = asFile(oidcConfigRef('gateway')).properties

/** The issuer and the rules for the tokens of callers. */
export const oidc = object('The issuer whose tokens callers present.', {
  ...issuer,
  issuer: Type.Optional(
    url('gateway', 'Issuer, compared exactly with `iss`. Absent: the one that the API server names.'),
  ),
  cluster: Type.Optional(cluster),
  serviceAccount: Type.Optional(serviceAccount),
  audience: text('gateway', 'Required in `aud`, or in the claim that `audienceClaim` names.', {
    min: 1,
    max: limits.url,
  }),
  scopes,
  introspection: Type.Optional(
    object('Introspection of opaque tokens (RFC 7662). Absent: opaque tokens are refused.', {
      clientId,
      clientSecretFile,
      url: introspectionUrl,
    }),
  ),
})

export type OidcConfig = Static<typeof oidc>
