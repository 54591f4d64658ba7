import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK } from 'jose'
// @ts-expect-error: the package has no types, and @types would add thirty packages.
import Provider from 'oidc-provider'
import { secret } from '../../secrets/watch.ts'
import { exchangeGrant } from './oidc-exchange.ts'
import { nextRsaPair } from './rsa-pairs.ts'

/** The npm package `oidc-provider` on loopback, a certified OpenID provider. */
export interface OidcProvider {
  readonly issuer: string
  readonly tokenUrl: string
  /** A client that may exchange tokens for one server into tokens for another (RFC 8693). */
  readonly client: { readonly id: string; readonly secret: string }
  /** Returns a token for a resource, of a person who has logged in. */
  userToken(subject: string, resource: string, scope?: string): Promise<string>
  /** Returns a token for a resource by client credentials. */
  token(resource: string, scope?: string): Promise<string>
  revoke(token: string): Promise<void>
  close(): Promise<void>
}

interface OidcProviderOptions {
  /** Format of the access tokens for a resource. */
  formatOf(resource: string): 'jwt' | 'opaque'
  /** Scopes that clients may request. */
  readonly scopes?: readonly string[]
  readonly redirectUris?: readonly string[]
}

const LIFE_S = 300

export async function startOidcProvider(options: OidcProviderOptions): Promise<OidcProvider> {
  const { formatOf, scopes = [] } = options
  const client = { id: 'portico', secret: secret<string>(randomBytes(24).toString('base64url')) }
  const { privateKey, publicKey } = await nextRsaPair()
  const server = createServer((request, response) => void listener(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const resourceServer = (resource: string) => ({
    scope: scopes.join(' '),
    audience: resource,
    accessTokenTTL: LIFE_S,
    accessTokenFormat: formatOf(resource),
    jwt: { sign: { alg: 'RS256' } },
  })
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        grant_types: ['client_credentials', 'authorization_code', exchangeGrant.name],
        response_types: ['code'],
        redirect_uris: [...(options.redirectUris ?? ['https://gateway.example/oauth/callback'])],
      },
    ],
    scopes: [...scopes, 'openid', 'offline_access'],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig', kid: 'first' }] },
    cookies: { keys: [randomBytes(16).toString('hex')] },
    ttl: { ClientCredentials: LIFE_S },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, resource: string) => resourceServer(resource),
      },
    },
  })
  const { name, parameters, handle } = exchangeGrant
  provider.registerGrantType(name, handle({ provider, publicKey, resourceServer }), parameters)
  const listener = provider.callback()

  const basic = Buffer.from(`${client.id}:${client.secret}`).toString('base64')
  async function post(path: string, fields: Record<string, string>): Promise<Response> {
    const headers = { authorization: `Basic ${basic}` }
    const response = await fetch(`${issuer}${path}`, { method: 'POST', headers, body: new URLSearchParams(fields) })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return response
  }
  return {
    issuer,
    tokenUrl: `${issuer}/token`,
    client,
    async userToken(subject, resource, scope = '') {
      const grant = new provider.Grant({ accountId: subject, clientId: client.id })
      grant.addResourceScope(resource, scope)
      const token = new provider.AccessToken({
        accountId: subject,
        client: await provider.Client.find(client.id),
        grantId: await grant.save(),
        gty: 'authorization_code',
        scope,
      })
      token.resourceServer = new provider.ResourceServer(resource, resourceServer(resource))
      return secret<string>(await token.save())
    },
    async token(resource, scope = '') {
      const fields = { grant_type: 'client_credentials', resource, ...(scope === '' ? {} : { scope }) }
      const { access_token: token } = (await (await post('/token', fields)).json()) as { access_token: string }
      return secret(token)
    },
    revoke: async (token) => void (await post('/token/revocation', { token })),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
