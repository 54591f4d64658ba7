import { type CryptoKey, jwtVerify } from 'jose'
// @ts-expect-error: the package has no types.
import { errors } from 'oidc-provider'
import { secret } from '../../secrets/watch.ts'

/** The package has no types. */
// biome-ignore lint/suspicious/noExplicitAny: as its import is.
type Untyped = any

/** The provider's functions that the grant needs. */
interface ExchangeOptions {
  readonly provider: Untyped
  readonly publicKey: CryptoKey
  readonly resourceServer: (resource: string) => object
}

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

/** Adds token exchange (RFC 8693) to the package, which leaves it to its user (`registerGrantType`); issues JWTs. */
export const exchangeGrant = {
  name: 'urn:ietf:params:oauth:grant-type:token-exchange',
  parameters: ['subject_token', 'subject_token_type', 'requested_token_type', 'audience', 'scope'],
  handle: ({ provider, publicKey, resourceServer }: ExchangeOptions) =>
    async function exchange(ctx: Untyped): Promise<void> {
      const { client, params } = ctx.oidc
      const { subject_token: subjectToken, subject_token_type: type, audience, scope = '' } = params
      if (type !== ACCESS_TOKEN || params.requested_token_type !== ACCESS_TOKEN)
        throw new errors.InvalidRequest('access tokens are exchanged, and nothing else')
      if (audience === undefined) throw new errors.InvalidTarget('for whom?')
      const { payload } = await jwtVerify(subjectToken, publicKey, { issuer: provider.issuer }).catch(() => {
        throw new errors.InvalidGrant('the subject token is none of this issuer')
      })
      const grant = new provider.Grant({ accountId: payload.sub, clientId: client.clientId })
      grant.addResourceScope(audience, scope)
      const token = new provider.AccessToken({
        accountId: payload.sub,
        client,
        grantId: await grant.save(),
        gty: 'token_exchange',
        scope,
      })
      token.resourceServer = new provider.ResourceServer(audience, resourceServer(audience))
      ctx.body = {
        access_token: secret<string>(await token.save()),
        issued_token_type: ACCESS_TOKEN,
        token_type: token.tokenType,
        expires_in: token.expiration,
        scope,
      }
    },
}
