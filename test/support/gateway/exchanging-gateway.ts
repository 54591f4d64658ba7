import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { type IdentityProvider, startIdentityProvider } from '../network/identity-provider.ts'
import { startTokenEndpoint, type TestTokenEndpoint } from '../network/token-endpoint.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from './gateway.ts'

export const AUDIENCE = 'https://gateway.example/mcp'
/** Contains characters that must be form-encoded in HTTP Basic. */
export const CLIENT = { id: 'the:gateway', secret: 'p%ss w:rd+ü' } as const

/** A gateway whose callers have tokens of `idp`, and which exchanges them at `endpoint` for its backends. */
export interface ExchangingGateway extends GatewayUnderTest {
  readonly idp: IdentityProvider
  readonly endpoint: TestTokenEndpoint
  /** Returns the header of a caller, with one token for each subject. */
  bearer(subject: string): Promise<{ readonly authorization: string }>
}

type Exchange = NonNullable<BackendConfig['credential']>['tokenExchange']

/** A backend that gets exchanged tokens, with its name as their audience. */
export const buildExchangingBackend = (
  name: string,
  url: string,
  endpoint: TestTokenEndpoint,
  more: Partial<Exchange> = {},
): BackendConfig => ({
  name,
  url,
  credential: {
    type: 'tokenExchange',
    tokenExchange: {
      tokenUrl: endpoint.url,
      audience: name,
      clientId: CLIENT.id,
      clientSecretFile: 'client-secret',
      ...more,
    },
  },
})

export async function startExchangingGateway(
  backendsOf: (endpoint: TestTokenEndpoint) => readonly BackendConfig[],
  config: Partial<TestConfig> = {},
): Promise<ExchangingGateway> {
  const idp = await startIdentityProvider()
  const endpoint = await startTokenEndpoint()
  const gateway = await startGateway(
    {
      incomingAuth: { type: 'oidc', oidc: { issuer: idp.issuer, audience: AUDIENCE } },
      ...config,
      backends: [...backendsOf(endpoint)],
    },
    (directory) => writeFile(join(directory, 'client-secret'), `${CLIENT.secret}\n`),
  )
  const tokens = new Map<string, Promise<string>>()
  return {
    ...gateway,
    idp,
    endpoint,
    async bearer(subject) {
      const token = tokens.get(subject) ?? idp.mint({ sub: subject, aud: AUDIENCE })
      tokens.set(subject, token)
      return { authorization: `Bearer ${await token}` }
    },
    async close() {
      await gateway.close()
      await Promise.all([endpoint.close(), idp.close()])
    },
  }
}
