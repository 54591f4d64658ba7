import { storedUpstreamTokens } from '../../../dataplane/credentials/index.ts'
import {
  createMemoryTokenStore,
  LOGIN_CLAIM,
  type UpstreamTokenSet,
  type UpstreamTokenStore,
} from '../../../dataplane/upstream-tokens/index.ts'
import { secret } from '../../secrets/watch.ts'
import { type IdentityProvider, startIdentityProvider } from '../network/identity-provider.ts'
import { AUDIENCE } from './exchanging-gateway.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from './gateway.ts'

type Refresh = NonNullable<Parameters<typeof storedUpstreamTokens>[1]['refresh']>

interface LoginGatewayOptions {
  /** The storage; by default an empty one in memory. */
  readonly store?: UpstreamTokenStore
  /** Issues the callers' tokens in place of the gateway's own authorization server; by default a new issuer. */
  readonly idp?: IdentityProvider
  readonly refresh?: Refresh
  readonly prepare?: (directory: string) => Promise<void>
}

/** A gateway whose callers' tokens carry a login's claim, and a store for the tokens of those logins' providers. */
export interface LoginGateway extends GatewayUnderTest {
  readonly idp: IdentityProvider
  readonly store: UpstreamTokenStore
  /** Returns the header of a caller in one of their logins. */
  bearer(
    subject: string,
    login?: string,
    claims?: Readonly<Record<string, unknown>>,
  ): Promise<{ readonly authorization: string }>
  /** Stores the access token of a provider, and returns its version. */
  logIn(
    who: { readonly subject: string; readonly login: string; readonly provider: string },
    accessToken: string,
    more?: Partial<UpstreamTokenSet>,
  ): Promise<string | undefined>
}

export async function startLoginGateway(config: TestConfig, options: LoginGatewayOptions = {}): Promise<LoginGateway> {
  const idp = options.idp ?? (await startIdentityProvider())
  const store = options.store ?? createMemoryTokenStore()
  const { issuer } = idp
  const { refresh } = options
  const gateway = await startGateway(
    { incomingAuth: { type: 'oidc', oidc: { issuer, audience: AUDIENCE } }, ...config },
    options.prepare,
    storedUpstreamTokens(store, { issuer, ...(refresh === undefined ? {} : { refresh }) }),
  )
  return {
    ...gateway,
    idp,
    store,
    async bearer(subject, login, claims = {}) {
      const of = login === undefined ? {} : { [LOGIN_CLAIM]: login }
      return { authorization: `Bearer ${await idp.mint({ sub: subject, aud: AUDIENCE, ...of, ...claims })}` }
    },
    logIn({ subject, login, provider }, accessToken, more = {}) {
      const set = { owner: subject, subject: `${subject}-at-${provider}`, accessToken: secret(accessToken), ...more }
      return store.put({ login, provider }, set, { ttlMs: 600_000 })
    },
    async close() {
      await gateway.close()
      if (options.idp === undefined) await idp.close()
    },
  }
}

/** A backend that gets a provider's access token. */
export const buildInjectingBackend = (
  name: string,
  url: string,
  providerName = 'github',
): TestConfig['backends'][number] => ({
  name,
  url,
  credential: { type: 'upstreamInject', upstreamInject: { providerName } },
})
