import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, type GenerateKeyPairResult, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'
import { secret } from '../../secrets/watch.ts'
import { nextRsaPair } from '../identity/rsa-pairs.ts'
import { freePort } from './free-port.ts'

export interface IdentityProviderOptions {
  /** Path of the issuer, such as `/tenants/a`; default none. */
  readonly path?: string
  /** The kind of discovery document; default OpenID Connect's. `none` serves only keys. */
  readonly discovery?: 'suffixed' | 'oauth-inserted' | 'openid-inserted' | 'none'
  /** The issuer in the discovery document; default the issuer. */
  readonly namedIssuer?: string
  /** The `jwks_uri` in the discovery document; default its own. */
  readonly jwksUri?: string
  /** Token that its endpoints require. */
  readonly requireBearer?: string
  /** Port of an earlier provider that this one replaces; default any. */
  readonly port?: number
}

export type Algorithm = 'RS256' | 'ES256'

export interface MintOptions {
  readonly algorithm?: Algorithm
  /** Protected header fields that replace the usual ones; undefined removes one. */
  readonly header?: Readonly<Record<string, unknown>>
  /** Seconds from now; default 300. */
  readonly expiresIn?: number
}

/** The provider's answers: correct, an error, invalid, none, a redirect, or huge. */
export type Behaviour = 'fine' | 'error' | 'rubbish' | 'hangs' | 'redirects' | 'huge'

interface SigningKey {
  readonly kid: string
  readonly algorithm: Algorithm
  readonly privateKey: GenerateKeyPairResult['privateKey']
  readonly publicJwk: JWK
}

/** A real identity provider on loopback: discovery, keys and tokens. It has no login. */
export interface IdentityProvider {
  readonly issuer: string
  readonly jwksUrl: string
  readonly port: number
  /** Number of requests so far, by path. */
  readonly requests: ReadonlyMap<string, number>
  behaviour: Behaviour
  /** Answers in place of the provider; returns true if it has. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined
  /**
   * Returns a signed token. `iss`, `sub`, `iat` and `exp` are filled in unless `claims` has them; undefined removes
   * one.
   */
  mint(claims?: Readonly<Record<string, unknown>>, options?: MintOptions): Promise<string>
  /** The introspection endpoint (RFC 7662), for `introspectionClient` only. */
  readonly introspectionUrl: string
  /** Returns an opaque token; introspection answers with `claims`, `active`, `iss`, `sub` and `exp`. */
  grant(claims?: Readonly<Record<string, unknown>>): string
  revoke(token: string): unknown
  /** Makes new signing keys; the old ones are no longer published unless `keepOld` is set. */
  rotate(options?: { readonly keepOld?: boolean }): Promise<void>
  close(): Promise<void>
}

/** Contains characters that must be form-encoded in HTTP Basic. */
export const introspectionClient = { id: 'the:registry', secret: secret('p%ss w:rd+ü12') } as const

export async function startIdentityProvider(options: IdentityProviderOptions = {}): Promise<IdentityProvider> {
  const { path = '', discovery = 'suffixed' } = options
  const requests = new Map<string, number>()
  const granted = new Map<string, Readonly<Record<string, unknown>>>()
  let signing = await newKeys()
  let published = signing

  const server = createServer((request, response) => {
    const url = request.url ?? '/'
    requests.set(url, (requests.get(url) ?? 0) + 1)
    if (provider.intercept?.(request, response)) return
    if (provider.behaviour !== 'fine') return misbehave(provider.behaviour, request, response)
    if (options.requireBearer !== undefined && request.headers.authorization !== `Bearer ${options.requireBearer}`)
      return json(response, 401, { error: 'unauthorized' })
    if (url === discoveryPath) return json(response, 200, metadata())
    if (url === jwksPath) return json(response, 200, { keys: published.map(({ publicJwk }) => publicJwk) })
    if (url === `${path}/introspect`) return introspect(request, response, granted)
    return json(response, 404, { error: 'not_found' })
  })
  // The server may be started again on this port.
  const chosen = options.port ?? (await freePort())
  await new Promise<void>((resolve) => server.listen(chosen, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const origin = `http://127.0.0.1:${port}`
  const issuer = `${origin}${path}`
  const jwksPath = `${path}/keys`
  const discoveryPath = {
    suffixed: `${path}/.well-known/openid-configuration`,
    'oauth-inserted': `/.well-known/oauth-authorization-server${path}`,
    'openid-inserted': `/.well-known/openid-configuration${path}`,
    none: undefined,
  }[discovery]

  const metadata = () => ({
    issuer: options.namedIssuer ?? issuer,
    jwks_uri: options.jwksUri ?? `${origin}${jwksPath}`,
    introspection_endpoint: provider.introspectionUrl,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256', 'ES256'],
  })

  const provider: IdentityProvider = {
    issuer,
    jwksUrl: `${origin}${jwksPath}`,
    introspectionUrl: `${origin}${path}/introspect`,
    grant(claims = {}) {
      const token = secret<string>(randomUUID())
      granted.set(token, {
        active: true,
        iss: issuer,
        sub: 'alice',
        exp: Math.floor(Date.now() / 1000) + 300,
        ...claims,
      })
      return token
    },
    revoke: (token) => granted.delete(token),
    port,
    requests,
    behaviour: 'fine',
    intercept: undefined,
    async mint(claims = {}, { algorithm = 'RS256', header = {}, expiresIn = 300 } = {}) {
      const key = signing.find((candidate) => candidate.algorithm === algorithm) as SigningKey
      const now = Math.floor(Date.now() / 1000)
      const payload = { iss: issuer, sub: 'alice', iat: now, exp: now + expiresIn, jti: randomUUID(), ...claims }
      const token = await new SignJWT(payload as JWTPayload)
        .setProtectedHeader({ alg: algorithm, kid: key.kid, typ: 'JWT', ...header } as { alg: string })
        .sign(key.privateKey)
      secret(token.split('.')[2] as string)
      return secret(token)
    },
    async rotate({ keepOld = false } = {}) {
      const fresh = await newKeys()
      published = keepOld ? [...published, ...fresh] : fresh
      signing = fresh
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return provider
}

async function newKeys(): Promise<readonly SigningKey[]> {
  const algorithms: readonly Algorithm[] = ['RS256', 'ES256']
  return Promise.all(
    algorithms.map(async (algorithm) => {
      const { publicKey, privateKey } = await (algorithm === 'RS256'
        ? nextRsaPair()
        : generateKeyPair(algorithm, { extractable: true }))
      const kid = randomUUID()
      const publicJwk = { ...(await exportJWK(publicKey)), kid, alg: algorithm, use: 'sig' }
      return { kid, algorithm, privateKey, publicJwk }
    }),
  )
}

function misbehave(behaviour: Exclude<Behaviour, 'fine'>, request: IncomingMessage, response: ServerResponse): void {
  switch (behaviour) {
    case 'error':
      json(response, 500, { error: 'server_error' })
      return
    case 'rubbish':
      response.writeHead(200, { 'content-type': 'application/json' }).end('<html>not json')
      return
    case 'redirects':
      response.writeHead(302, { location: `/elsewhere${request.url}` }).end()
      return
    case 'huge':
      response.writeHead(200, { 'content-type': 'application/json' }).end(`{"a":"${'x'.repeat(4 * 1024 * 1024)}"}`)
      return
    case 'hangs':
      return
  }
}

/** Answers only the client with the secret, in HTTP Basic with both parts form-encoded (RFC 6749 section 2.3.1). */
async function introspect(
  request: IncomingMessage,
  response: ServerResponse,
  granted: ReadonlyMap<string, Readonly<Record<string, unknown>>>,
): Promise<void> {
  const encoded = [introspectionClient.id, introspectionClient.secret]
    .map((part) => encodeURIComponent(part).replaceAll('%20', '+'))
    .join(':')
  const expected = `Basic ${Buffer.from(encoded).toString('base64')}`
  if (request.method !== 'POST' || request.headers.authorization !== expected)
    return json(response, 401, { error: 'invalid_client' })
  let body = ''
  for await (const chunk of request) body += chunk
  json(response, 200, granted.get(new URLSearchParams(body).get('token') ?? '') ?? { active: false })
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
