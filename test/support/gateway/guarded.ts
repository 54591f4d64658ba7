import type { AuthzConfig } from '../../../dataplane/config/gateway.ts'
import { eventually } from '../eventually.ts'
import { type IdentityProvider, startIdentityProvider } from '../network/identity-provider.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from './gateway.ts'
import { openSession, post, postModern, type RpcAnswer, rpc } from './post.ts'

export const AUDIENCE = 'https://gateway.example/mcp'

export type Claims = Readonly<Record<string, unknown>>
export type Ask = (claims: Claims, method: string, params?: Record<string, unknown>) => Promise<RpcAnswer>

/** A gateway with policies, whose callers have tokens of a real issuer. */
export class GuardedGateway {
  readonly idp: IdentityProvider
  readonly gateway: GatewayUnderTest
  readonly #config: TestConfig
  #inForce: string

  private constructor(idp: IdentityProvider, gateway: GatewayUnderTest, config: TestConfig, authz: AuthzConfig) {
    this.idp = idp
    this.gateway = gateway
    this.#config = config
    this.#inForce = JSON.stringify(authz)
  }

  static async start(
    backends: TestConfig['backends'],
    authz: AuthzConfig,
    more: Partial<TestConfig> = {},
  ): Promise<GuardedGateway> {
    const idp = await startIdentityProvider()
    const config: TestConfig = {
      ...more,
      backends,
      resourceUrl: AUDIENCE,
      incomingAuth: { type: 'oidc', oidc: { issuer: idp.issuer, audience: AUDIENCE, allowPrivateIP: true } },
    }
    return new GuardedGateway(idp, await startGateway({ ...config, authz }), config, authz)
  }

  get url(): string {
    return this.gateway.url
  }

  /** Replaces the policies, and waits until they are in force. Does nothing if they already are. */
  async enforce(authz: AuthzConfig | undefined): Promise<void> {
    const wanted = JSON.stringify(authz ?? {})
    if (wanted === this.#inForce) return
    this.#inForce = wanted
    const { config } = await this.gateway.status()
    await this.gateway.configure(authz === undefined ? this.#config : { ...this.#config, authz })
    await eventually('other policies', async () => (await this.gateway.status()).config !== config)
  }

  async bearer(claims: Claims): Promise<Record<string, string>> {
    return { authorization: `Bearer ${await this.idp.mint({ aud: AUDIENCE, ...claims })}` }
  }

  /** Sends one request of the modern era. */
  readonly modern: Ask = async (claims, method, params = {}) =>
    postModern(this.url, method, params, await this.bearer(claims))

  /** Sends one request in a new session. */
  readonly legacy: Ask = async (claims, method, params = {}) =>
    post(this.url, rpc(method, params), await openSession(this.url, await this.bearer(claims)))

  get eras(): Readonly<Record<string, Ask>> {
    return { modern: this.modern, legacy: this.legacy }
  }

  async close(): Promise<void> {
    await this.gateway.close()
    await this.idp.close()
  }
}
