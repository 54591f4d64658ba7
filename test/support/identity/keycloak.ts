import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { secret } from '../../secrets/watch.ts'
import { keycloakFolder } from '../../setup/keycloak.ts'
import { eventually } from '../eventually.ts'
import { freePort } from '../network/free-port.ts'

/** Asks for a user's token, or without `user` for the client's own. */
interface TokenRequest {
  readonly user?: string
  readonly scope?: string
}

/** Keycloak on loopback, without TLS, with a realm of its own. */
export interface Keycloak {
  /** The realm's issuer. */
  readonly issuer: string
  /** A confidential client that may exchange tokens (RFC 8693). */
  readonly client: { readonly id: string; readonly secret: string }
  /** The user who logs in at its page. */
  readonly user: { readonly name: string; readonly password: string }
  /** A scope that clients may request; it adds `audience` to tokens. */
  readonly scope: string
  readonly audience: string
  /** Another server for which the client may exchange tokens: its audience, and the scope for it. */
  readonly backend: { readonly audience: string; readonly scope: string }
  token(request?: TokenRequest): Promise<string>
  /** POSTs a form to an endpoint of the realm with the client's credentials. */
  post(endpoint: string, fields: Readonly<Record<string, string>>): Promise<Response>
  /** POSTs to the realm as its administrator; `path` is below the realm's. */
  administer(path: string, body: object): Promise<void>
  /** Adds new signing keys; the earlier ones stay published. */
  rotateKeys(): Promise<void>
  close(): Promise<void>
}

const REALM = 'corp'
const USER = 'alice'
/** A quarter of a minute on an idle machine; on one that is three times slower and has other tests to run, minutes. */
const MOST_START_MS = 600_000
const password = () => secret<string>(randomBytes(18).toString('base64url'))

interface KeycloakOptions {
  /** Address to listen at; default 127.0.0.1, which is also used to reach it if this is 0.0.0.0. */
  readonly host?: string
  /** Allowed redirect URIs. */
  readonly redirectUris?: readonly string[]
}

/** Starts Keycloak and creates the realm, in about a quarter of a minute. */
export async function startKeycloak(
  audience: string,
  { host = '127.0.0.1', redirectUris = ['https://gateway.example/oauth/callback'] }: KeycloakOptions = {},
): Promise<Keycloak> {
  const directory = mkdtempSync(join(tmpdir(), 'portico-keycloak-'))
  const home = join(directory, 'keycloak')
  cpSync(keycloakFolder(), home, { recursive: true })
  const port = await freePort()
  const origin = `http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`
  const admin = { user: 'admin', password: password() }
  const child = startProcess(home, { host, port }, admin)
  const close = async () => {
    await end(child)
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 })
  }
  try {
    await eventually('Keycloak answers', () => answers(`${origin}/realms/master`, child), MOST_START_MS)
    return { ...(await makeRealm({ origin, admin, audience, redirectUris })), close }
  } catch (error) {
    await close()
    throw error
  }
}

function startProcess(
  home: string,
  { host, port }: { host: string; port: number },
  admin: { user: string; password: string },
): ChildProcess {
  const address = [`--http-host=${host}`, `--http-port=${port}`]
  const args = ['start', '--optimized', '--http-enabled=true', '--hostname-strict=false', ...address]
  const env = {
    ...process.env,
    KC_BOOTSTRAP_ADMIN_USERNAME: admin.user,
    KC_BOOTSTRAP_ADMIN_PASSWORD: admin.password,
    // The start is a third faster without the second compiler.
    JAVA_OPTS_APPEND: '-XX:TieredStopAtLevel=1',
  }
  const child = spawn(join(home, 'bin/kc.sh'), args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.resume()
  child.stderr.resume()
  return child
}

async function answers(url: string, { exitCode }: ChildProcess): Promise<boolean> {
  if (exitCode !== null) throw new Error(`Keycloak has ended with ${exitCode}`)
  return fetch(url).then(
    (response) => response.ok,
    () => false,
  )
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  // Its script passes this signal on to Java, which would survive the script.
  child.kill('SIGTERM')
  await ended
}

interface RealmOptions {
  readonly origin: string
  readonly admin: { readonly user: string; readonly password: string }
  readonly audience: string
  readonly redirectUris: readonly string[]
}

async function requireOk(response: Response): Promise<Response> {
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${await response.text()}`)
  return response
}

const readToken = async (response: Response) =>
  secret(((await (await requireOk(response)).json()) as { access_token: string }).access_token)

/** Sends requests to the realm as administrator, each with a new token, because a token expires after a minute. */
function administration({ origin, admin }: RealmOptions) {
  return async (path: string, body: object): Promise<void> => {
    const fields = { grant_type: 'password', client_id: 'admin-cli', username: admin.user, password: admin.password }
    const login = `${origin}/realms/master/protocol/openid-connect/token`
    const token = await readToken(await fetch(login, { method: 'POST', body: new URLSearchParams(fields) }))
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    await requireOk(
      await fetch(`${origin}/admin/realms${path}`, { method: 'POST', headers, body: JSON.stringify(body) }),
    )
  }
}

async function makeRealm(options: RealmOptions): Promise<Omit<Keycloak, 'close'>> {
  const { origin, audience, redirectUris } = options
  const administer = administration(options)
  const issuer = `${origin}/realms/${REALM}`
  const client = { id: 'agent', secret: password() }
  const user = { name: USER, password: password() }
  const scope = 'tools:call'
  const backend = { audience: 'orders', scope: 'orders:read' }
  await administer('', { realm: REALM, enabled: true, sslRequired: 'none' })
  await administer(`/${REALM}/client-scopes`, scopeWithAudience(scope, audience))
  await administer(`/${REALM}/client-scopes`, scopeWithAudience(backend.scope, backend.audience))
  // A requested audience has to be a client.
  await administer(`/${REALM}/clients`, { clientId: backend.audience, bearerOnly: true })
  await administer(`/${REALM}/clients`, {
    clientId: client.id,
    secret: client.secret,
    serviceAccountsEnabled: true,
    directAccessGrantsEnabled: true,
    redirectUris,
    // With optional scopes, the default ones must be listed too: without `basic`, a token has no subject.
    defaultClientScopes: ['basic', 'profile', 'email'],
    optionalClientScopes: [scope, backend.scope],
    attributes: {
      'standard.token.exchange.enabled': 'true',
      // The audience of tokens is a resource, not the client that introspects them.
      'allow.token.introspection.without.audience.check': 'true',
    },
  })
  await administer(`/${REALM}/users`, {
    ...{ username: user.name, enabled: true, email: 'alice@corp.example', emailVerified: true },
    ...{ firstName: 'Alice', lastName: 'A', credentials: [{ type: 'password', value: user.password }] },
  })
  const basic = Buffer.from(`${client.id}:${client.secret}`).toString('base64')
  const post = (endpoint: string, fields: Readonly<Record<string, string>>) =>
    fetch(`${issuer}/protocol/openid-connect/${endpoint}`, {
      method: 'POST',
      headers: { authorization: `Basic ${basic}` },
      body: new URLSearchParams(fields),
    })
  let rotations = 0
  return {
    issuer,
    client,
    user,
    scope,
    audience,
    backend,
    post,
    administer: (path, body) => administer(`/${REALM}${path}`, body),
    async token({ user: name, scope } = {}) {
      const grant: Record<string, string> =
        name === undefined
          ? { grant_type: 'client_credentials' }
          : { grant_type: 'password', username: name, password: user.password }
      return readToken(await post('token', { ...grant, ...(scope === undefined ? {} : { scope }) }))
    },
    rotateKeys: () => {
      rotations += 1
      return administer(`/${REALM}/components`, {
        name: `rotated-${rotations}`,
        providerId: 'rsa-generated',
        providerType: 'org.keycloak.keys.KeyProvider',
        config: { priority: [String(1000 + rotations)] },
      })
    },
  }
}

const scopeWithAudience = (name: string, audience: string) => ({
  name,
  protocol: 'openid-connect',
  attributes: { 'include.in.token.scope': 'true' },
  protocolMappers: [
    {
      name: 'audience',
      protocol: 'openid-connect',
      protocolMapper: 'oidc-audience-mapper',
      config: {
        'included.custom.audience': audience,
        'access.token.claim': 'true',
        'introspection.token.claim': 'true',
      },
    },
  ],
})
