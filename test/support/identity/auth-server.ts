import { createHash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { secret } from '../../secrets/watch.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../gateway/gateway.ts'
import { freePort } from '../network/free-port.ts'
import { type LoginProvider, startLoginProvider } from './login-provider.ts'
import { UserAgent } from './user-agent.ts'

/** A gateway with an authorization server, and the provider where its users log in. */
export interface AuthServerUnderTest {
  readonly issuer: string
  readonly resource: string
  readonly gateway: GatewayUnderTest
  readonly upstream: LoginProvider
  /** All providers, in order; the first is `upstream`. */
  readonly upstreams: readonly LoginProvider[]
  /** Returns its configuration with changes. */
  config(more?: Partial<AuthServerConfig>, gateway?: Partial<TestConfig>): TestConfig
  close(): Promise<void>
}

export const SCOPES = ['tools:call', 'tools:read']
export const REDIRECT = 'http://127.0.0.1:7777/callback'

interface StartOptions {
  readonly authServer?: Partial<AuthServerConfig>
  readonly gateway?: Partial<TestConfig>
  readonly path?: string
  /** The origin of a proxy in front of it, such as `https://localhost:1`; by default its own. */
  readonly origin?: string
  /** Memory limit of the gateway, if it has one. */
  readonly memoryBytes?: number
  /** Names of the providers where users log in; default `corp`. */
  readonly providers?: readonly string[]
  /** Providers that a login does not visit. */
  readonly onDemand?: readonly string[]
  /** Changes each configuration that is made. */
  change?(config: TestConfig): void
  prepare?(directory: string): Promise<void>
}

/** Starts the gateway; tries another port if another process has taken the chosen one meanwhile. */
export async function startAuthServer(options: StartOptions = {}): Promise<AuthServerUnderTest> {
  for (let left = 4; ; left--)
    try {
      return await startOnce(options)
    } catch (error) {
      if (left === 0 || !/^port \d+ is taken/.test((error as Error).message)) throw error
    }
}

async function startOnce(options: StartOptions): Promise<AuthServerUnderTest> {
  const port = await freePort()
  const { providers = ['corp'], path = '', origin = `http://127.0.0.1:${port}` } = options
  const issuer = `${origin}${path}`
  const resource = `${origin}/mcp`
  const upstreams = await Promise.all(
    providers.map(() =>
      startLoginProvider([issuer, issuer.replace('127.0.0.1', 'localhost')].map((base) => `${base}/oauth/callback`)),
    ),
  )
  const [upstream] = upstreams as [LoginProvider]
  const buildConfig = (more: Partial<AuthServerConfig> = {}, gateway: Partial<TestConfig> = {}): TestConfig => ({
    backends: [],
    resourceUrl: resource,
    incomingAuth: { type: 'oidc', oidc: { issuer, audience: resource, scopes: ['tools:call'] } },
    authServer: {
      issuer,
      scopes: SCOPES,
      upstreamProviders: upstreams.map((provider, index) => ({
        name: providers[index] as string,
        type: 'oidc',
        ...(options.onDemand?.includes(providers[index] as string) && { loginPolicy: 'onDemand' }),
        oidcConfig: {
          issuerUrl: provider.issuer,
          clientId: provider.client.id,
          clientSecretFile: nameSecretFile(index),
          scopes: ['openid', 'profile', 'email'],
        },
      })),
      ...options.authServer,
      ...more,
    },
    ...options.gateway,
    ...gateway,
  })
  const config: typeof buildConfig = (...changes) => {
    const found = buildConfig(...changes)
    options.change?.(found)
    return found
  }
  const prepare = async (directory: string) => {
    for (const [index, { client }] of upstreams.entries())
      await writeFile(join(directory, nameSecretFile(index)), client.secret)
    await options.prepare?.(directory)
  }
  const closeUpstreams = () => Promise.all(upstreams.map((provider) => provider.close()))
  const gateway = await startGateway(config(), prepare, undefined, `127.0.0.1:${port}`, options.memoryBytes).catch(
    async (error) => {
      await closeUpstreams()
      throw error
    },
  )
  return {
    issuer,
    resource,
    gateway,
    upstream,
    upstreams,
    config,
    async close() {
      await gateway.close()
      await closeUpstreams()
    },
  }
}

const nameSecretFile = (index: number): string => (index === 0 ? 'upstream-secret' : `upstream-secret-${index + 1}`)

/** An answer of a token endpoint. */
export interface Tokens {
  readonly access_token: string
  readonly refresh_token: string
  readonly scope: string
  readonly expires_in: number
  readonly id_token?: string
  /** Members of an answer to a token exchange. */
  readonly issued_token_type?: string
}

/** A client of an authorization server that sends exactly what a test wants. */
export class TestClient {
  readonly issuer: string
  readonly agent = new UserAgent()
  verifier = secret(randomBytes(32).toString('base64url'))
  id: string
  secret: string | undefined
  /** Pages so far that reported a provider's fault, as HTML. */
  readonly faults: string[] = []

  constructor(issuer: string, id = '') {
    this.issuer = issuer
    this.id = id
  }

  static async register(issuer: string, metadata: object = {}): Promise<TestClient> {
    const client = new TestClient(issuer)
    const response = await client.post('register', JSON.stringify({ redirect_uris: [REDIRECT], ...metadata }))
    const answer = (await response.json()) as { client_id: string; client_secret?: string }
    if (response.status !== 201) throw new Error(`registration: ${response.status} ${JSON.stringify(answer)}`)
    client.id = answer.client_id
    client.secret = answer.client_secret === undefined ? undefined : secret(answer.client_secret)
    return client
  }

  /** Posts a text as JSON, or fields as a form. */
  post(
    endpoint: string,
    body: string | Record<string, string> | [string, string][],
    headers: Record<string, string> = {},
  ) {
    const isJson = typeof body === 'string'
    return fetch(`${this.issuer}/oauth/${endpoint}`, {
      method: 'POST',
      headers: isJson ? { 'content-type': 'application/json', ...headers } : headers,
      body: isJson ? body : new URLSearchParams(body),
    })
  }

  /** Returns an authorization request; undefined removes a parameter. */
  authorizeUrl(changes: Record<string, string | undefined> = {}): string {
    const url = new URL(`${this.issuer}/oauth/authorize`)
    const parameters = {
      response_type: 'code',
      client_id: this.id,
      redirect_uri: REDIRECT,
      code_challenge: createHash('sha256').update(this.verifier).digest('base64url'),
      code_challenge_method: 'S256',
      scope: SCOPES.join(' '),
      state: 'the-state',
      ...changes,
    }
    for (const [name, value] of Object.entries(parameters)) if (value !== undefined) url.searchParams.set(name, value)
    return url.href
  }

  /** Logs in, and returns the parameters of the redirect to the client. */
  async authorize(changes: Record<string, string | undefined> = {}): Promise<URLSearchParams> {
    const target = changes['redirect_uri'] ?? REDIRECT
    const url = this.authorizeUrl(changes)
    const end = await this.agent.follow(url, (at) => at.startsWith(target))
    const onward = end.response === undefined ? end.url : await this.#faulty(end, target)
    const { searchParams } = new URL(onward)
    const code = searchParams.get('code')
    if (code !== null) secret(code)
    return searchParams
  }

  /** Keeps a page that reports a fault, and returns the link on it. Throws if the login ended at another page. */
  async #faulty({ url, response }: { url: string; response: Response | undefined }, target: string): Promise<string> {
    const page = (await response?.text()) ?? ''
    const link = /<a href="([^"]+)">Go back/.exec(page)?.[1]?.replaceAll('&amp;', '&')
    if (link?.startsWith(target) !== true) throw new Error(`the login ended at ${url}: ${response?.status} ${page}`)
    this.faults.push(page)
    return link
  }

  /** Sends a request to the token endpoint with the client's own credentials. */
  token(fields: Record<string, string>): Promise<Response> {
    const own = { client_id: this.id, ...(this.secret === undefined ? {} : { client_secret: this.secret }) }
    return this.post('token', { ...own, ...fields })
  }

  exchange(code: string, changes: Record<string, string> = {}): Promise<Response> {
    const fields = { grant_type: 'authorization_code', code, redirect_uri: REDIRECT, code_verifier: this.verifier }
    return this.token({ ...fields, ...changes })
  }

  refresh(token: string, more: Record<string, string> = {}): Promise<Response> {
    return this.token({ grant_type: 'refresh_token', refresh_token: token, ...more })
  }

  /** Logs in and exchanges the code. */
  async login(changes: Record<string, string | undefined> = {}): Promise<Tokens> {
    const answer = await this.authorize(changes)
    const code = answer.get('code')
    if (code === null) throw new Error(`the login ended with ${answer.get('error')}`)
    const redirect = changes['redirect_uri']
    return readTokens(await this.exchange(code, redirect === undefined ? {} : { redirect_uri: redirect }))
  }
}

/** Returns the tokens of an answer; throws if it has none. */
export async function readTokens(response: Response): Promise<Tokens> {
  const answer = (await response.json()) as Tokens
  if (response.status !== 200) throw new Error(`the token endpoint: ${response.status} ${JSON.stringify(answer)}`)
  for (const token of [answer.access_token, answer.refresh_token, answer.id_token])
    if (token !== undefined) secret(token)
  return answer
}

/** Returns status and `error` of an answer. */
export async function refusal(pending: Response | Promise<Response>): Promise<string> {
  const response = await pending
  const { error } = (await response.json()) as { error?: string }
  return `${response.status} ${error}`
}
