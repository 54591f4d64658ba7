import { awsSts, crossAppAccess, tokenExchange, upstreamInject } from '../../crds/settings/auth/external-auth.ts'
import { asFile, extended } from '../../crds/settings/file-form.ts'
import { choice, list, object, type Static, Type, text, url } from '../../crds/settings/schema.ts'

const forwarded = object(
  'Headers that a caller sends for the server itself. A proxy that authenticates nobody passes them on; it treats a request without them as if this block were absent.',
  {
    headerNames: list(
      'Headers of a request that carry its credential for the server. The proxy passes them on.',
      text('gateway', 'Name of a header.', { min: 1 }),
      { min: 1 },
    ),
  },
)

/** Each caller's own credential for a backend: the blocks of MCPExternalAuthConfig, and `forwarded`. */
export const credential = object(
  'Each caller’s own credential for this backend. All but forwarded need callers with a name: incomingAuth oidc.',
  {
    type: choice('gateway', 'The way to obtain it.', ['tokenExchange', 'upstreamInject', 'xaa', 'awsSts', 'forwarded']),
    tokenExchange: Type.Optional(asFile(tokenExchange)),
    upstreamInject: Type.Optional(asFile(upstreamInject)),
    xaa: Type.Optional(asFile(crossAppAccess)),
    awsSts: Type.Optional(
      extended(asFile(awsSts), {
        stsUrl: Type.Optional(url('gateway', 'Endpoint of STS; absent: that of the region.')),
      }),
    ),
    forwarded: Type.Optional(forwarded),
  },
)

export type CredentialConfig = Static<typeof credential>
export type TokenExchangeConfig = NonNullable<CredentialConfig['tokenExchange']>
export type AwsStsConfig = NonNullable<CredentialConfig['awsSts']>
export type XaaConfig = NonNullable<CredentialConfig['xaa']>
export type UpstreamInjectConfig = NonNullable<CredentialConfig['upstreamInject']>
