/**
 * Fifty users log in at once through two providers, at two replicas over one Redis: none is lost, and none gets
 * another's tokens.
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../secrets/watch.ts'
import { type GatewayUnderTest, startGateway } from '../../support/gateway/gateway.ts'
import { buildInjectingBackend } from '../../support/gateway/login-gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  startAuthServer,
  TestClient,
  type Tokens,
} from '../../support/identity/auth-server.ts'
import type { LoginProvider } from '../../support/identity/login-provider.ts'
import { type RedisServer, startRedis } from '../../support/network/redis-server.ts'
import { startTcpFront, type TcpFront } from '../../support/network/tcp-front.ts'
import { usePatience } from '../../support/patience.ts'
import { answer, type RawRequest, type RawServer, startRawServer } from '../../support/servers/raw-server.ts'

const PEOPLE = Array.from({ length: 50 }, (_, index) => `person-${index}`)
const PROVIDERS = ['corp', 'code']

interface Person {
  readonly name: string
  readonly client: TestClient
  tokens: Tokens
}

let redis: RedisServer
let front: TcpFront
let server: AuthServerUnderTest
let replica: GatewayUnderTest
let backends: readonly RawServer[]
/** Credentials that backends no longer accept. */
const refused = new Set<string>()
let people: Person[] = []

const hmacSecret = secret(randomBytes(32).toString('base64url'))
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })
const prepare = async (directory: string) => {
  await writeFile(join(directory, 'hmac'), hmacSecret)
  await writeFile(join(directory, 'key.pem'), key)
  for (const [index, { client }] of server?.upstreams.entries() ?? [])
    await writeFile(join(directory, index === 0 ? 'upstream-secret' : `upstream-secret-${index + 1}`), client.secret)
}

/** Asks the provider whose credential this is, and returns the name to the caller. */
async function whoAmI(provider: () => LoginProvider, request: RawRequest, res: ServerResponse): Promise<boolean> {
  const { authorization = '' } = request.headers
  if (request.message.method !== 'tools/call') return false
  const userInfo = refused.has(authorization)
    ? undefined
    : await fetch(`${provider().issuer}/me`, { headers: { authorization } })
  const { sub } = (userInfo?.ok ? await userInfo.json() : {}) as { sub?: string }
  if (sub === undefined) res.writeHead(401).end()
  else {
    const result = JSON.stringify({ content: [{ type: 'text', text: sub }] })
    res.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, result))
  }
  return true
}

test.before(async () => {
  usePatience()
  redis = await startRedis()
  front = await startTcpFront(0)
  backends = await Promise.all(
    PROVIDERS.map((_, index) =>
      startRawServer({
        era: 'modern',
        call: () => undefined,
        before: (request, res) => whoAmI(() => server.upstreams[index] as LoginProvider, request, res),
      }),
    ),
  )
  server = await startAuthServer({
    origin: `http://127.0.0.1:${front.port}`,
    providers: PROVIDERS,
    gateway: {
      backends: backends.map(({ url }, index) =>
        buildInjectingBackend(PROVIDERS[index] as string, url, PROVIDERS[index]),
      ),
    },
    authServer: {
      hmacSecretFiles: ['hmac'],
      signingKeyFiles: ['key.pem'],
      // With fifty users on a busy machine, commands to Redis have to queue.
      storage: { type: 'redis', redis: { addresses: [redis.address], readTimeout: '1m' } },
    },
    prepare,
  })
  replica = await startGateway(server.config(), prepare)
  front.choose(...[server.gateway.base, replica.base].map((base) => Number(new URL(base).port)))
  for (const [index, upstream] of server.upstreams.entries())
    upstream.user = ({ headers }) => `${headers['x-person']}-at-${PROVIDERS[index]}`
})
test.after(async () => {
  await Promise.all([server.close(), replica.close(), front.close()])
  await Promise.all([redis.stop(), ...backends.map((backend) => backend.close())])
})

/** Returns each provider's token requests since `forget`. */
const exchanges = () => server.upstreams.map(({ requests }) => requests.filter((line) => line === 'POST /token').length)
function forget(): void {
  for (const { requests } of server.upstreams) requests.length = 0
  for (const backend of backends) backend.seen.length = 0
}

/** Every user calls both backends at both replicas at once; returns the wrong results. */
async function wrongCalls(): Promise<string[]> {
  const calls = people.flatMap(({ name, tokens }) =>
    PROVIDERS.flatMap((provider) =>
      [server.gateway.url, replica.url].map(async (url) => {
        const headers = { authorization: `Bearer ${tokens.access_token}` }
        const { json } = await postModern(url, 'tools/call', { name: `${provider}_t` }, headers)
        const got = json.result?.content[0].text
        return got === `${name}-at-${provider}` ? '' : `${name} at ${provider}: ${got ?? JSON.stringify(json)}`
      }),
    ),
  )
  return (await Promise.all(calls)).filter((wrong) => wrong !== '')
}

const credentials = () =>
  new Set(backends.flatMap((backend) => backend.calls('tools/call').map(({ headers }) => headers.authorization ?? '')))

test('every user is logged in with the tokens that both providers gave that user', async () => {
  const { id } = await TestClient.register(server.issuer)
  people = await Promise.all(
    PEOPLE.map(async (name) => {
      const client = new TestClient(server.issuer, id)
      client.agent.headers['x-person'] = name
      return { name, client, tokens: await client.login({ state: name }) }
    }),
  )
  const claims = people.map(({ tokens }) => decodeJwt(tokens.access_token))
  assert.is(new Set(claims.map((one) => one['tsid'])).size, PEOPLE.length)
  assert.is(new Set(claims.map((one) => one.sub)).size, PEOPLE.length)
  for (const [index, one] of claims.entries()) assert.is(one['name'], `Person ${PEOPLE[index]}-at-corp`)
  assert.equal(exchanges(), [PEOPLE.length, PEOPLE.length])
  forget()
  assert.equal(await wrongCalls(), [])
  assert.is(credentials().size, PEOPLE.length * PROVIDERS.length)
  assert.equal(exchanges(), [0, 0])
})

test('all users refresh at once, and none is logged out', async () => {
  forget()
  await Promise.all(
    people.map(async (person) => {
      person.tokens = await readTokens(await person.client.refresh(person.tokens.refresh_token))
    }),
  )
  assert.equal(await wrongCalls(), [])
  assert.equal(exchanges(), [0, 0])
})

test('if all provider tokens are refused at once, each is refreshed once, whichever replica asks', async () => {
  for (const credential of credentials()) refused.add(credential)
  forget()
  assert.equal(await wrongCalls(), [])
  assert.equal(exchanges(), [PEOPLE.length, PEOPLE.length])
  forget()
  assert.equal(await wrongCalls(), [])
  assert.is(credentials().size, PEOPLE.length * PROVIDERS.length)
  for (const credential of credentials()) assert.not.ok(refused.has(credential))
  assert.equal(exchanges(), [0, 0])
})

test('both replicas took part, and no log has a credential', () => {
  for (const { base } of [server.gateway, replica]) assert.ok(front.connections(Number(new URL(base).port)) > 10)
  for (const { lines } of [server.gateway, replica])
    for (const credential of refused) assert.not.ok(JSON.stringify(lines).includes(credential.slice('Bearer '.length)))
})

test.run()
