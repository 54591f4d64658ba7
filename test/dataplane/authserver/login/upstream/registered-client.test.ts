/** Checks that a gateway registers at a provider as one client, whatever the provider answers. */
import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createRegistration } from '../../../../../dataplane/authserver/login/upstream/registered-client.ts'
import { createMemoryStore } from '../../../../../dataplane/authserver/store/memory-store.ts'
import type { RecordStore } from '../../../../../dataplane/authserver/store/record-store.ts'
import { createRedisStore } from '../../../../../dataplane/authserver/store/redis-store.ts'
import { connectRedis } from '../../../../../dataplane/storage/redis.ts'
import { createSealer } from '../../../../../dataplane/upstream-tokens/index.ts'
import { secret } from '../../../../secrets/watch.ts'
import { recordLog } from '../../../../support/kept-log.ts'
import { type RedisServer, startRedis } from '../../../../support/network/redis-server.ts'
import { endFileOnError } from '../../../../support/or-fail.ts'

interface Reply {
  readonly status?: number
  readonly body: unknown
}

const HOUR_S = 3600
const SEALING = 's'.repeat(32)

for (const kind of ['memory', 'Redis'] as const) {
  const test = suite(kind)
  let redis: RedisServer | undefined
  let client: ReturnType<typeof connectRedis> | undefined
  let store: RecordStore
  const requests: { readonly path: string; readonly headers: IncomingMessage['headers']; readonly body: string }[] = []
  let reply: (count: number, path: string) => Reply | Promise<Reply>
  let base: string
  const server = createServer(
    endFileOnError(async (request: IncomingMessage, response: ServerResponse) => {
      let body = ''
      for await (const chunk of request) body += chunk
      requests.push({ path: request.url ?? '', headers: request.headers, body })
      const { status = 201, body: answer } = await reply(requests.length, request.url ?? '')
      response.writeHead(status, { 'content-type': 'application/json', location: `${base}/elsewhere` })
      response.end(typeof answer === 'string' ? answer : JSON.stringify(answer))
    }),
  )
  const closing: (() => Promise<void>)[] = []

  test.before(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    if (kind === 'memory') return
    redis = await startRedis()
    client = connectRedis({ mode: 'standalone', addresses: [redis.address] }, recordLog().log)
  })
  test.before.each(() => {
    requests.length = 0
    store =
      client === undefined
        ? createMemoryStore()
        : createRedisStore({ client, prefix: `p:{${randomBytes(6).toString('hex')}}:` })
    reply = (count) => ({ body: { client_id: `client-${count}`, client_secret: secret(`secret-of-client-${count}`) } })
  })
  test.after(async () => {
    await Promise.all(closing.map((close) => close()))
    client?.disconnect()
    await redis?.stop()
    server.closeAllConnections()
    server.close()
  })

  /** Starts what one replica has. */
  function replica(dcrConfig: object = { registrationEndpoint: `${base}/register` }, now?: () => number) {
    const config = { authorizationEndpoint: base, tokenEndpoint: `${base}/token`, scopes: ['a', 'b'], dcrConfig }
    const sealer = createSealer(() => [SEALING], 'salt')
    const options = { config, directory: '.', redirectUri: 'https://tools.example.com/oauth/callback', store, sealer }
    const registration = createRegistration({ ...options, ...(now && { now }) })
    closing.push(() => registration.close())
    return registration
  }

  test('the gateway registers once for all replicas and callers', async () => {
    const replicas = [replica(), replica(), replica()]
    const clients = await Promise.all(Array.from({ length: 30 }, (_, index) => replicas[index % 3]?.client()))
    assert.equal([...new Set(clients.map((one) => one?.id))], ['client-1'])
    assert.is(requests.length, 1)
    assert.equal(JSON.parse(requests[0]?.body ?? ''), {
      client_name: 'Portico',
      redirect_uris: ['https://tools.example.com/oauth/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'client_secret_basic',
      scope: 'a b',
    })
    // Other client metadata needs another registration.
    await replica({ registrationEndpoint: `${base}/register`, softwareId: 'x', softwareStatement: 'y.z' }).client()
    assert.is(requests.length, 2)
    assert.is(JSON.parse(requests[1]?.body ?? '').software_statement, 'y.z')
  })

  test('the store does not know the secret', async () => {
    const texts: string[] = []
    const inner = store
    store = {
      ...inner,
      set(one, name, text, ttl) {
        texts.push(text)
        return inner.set(one, name, text, ttl)
      },
    }
    const { secret: found } = await replica().client()
    assert.is(texts.length, 1)
    assert.not.ok(texts[0]?.includes(found ?? ''))
  })

  test('a secret with an end is replaced before that', async () => {
    let now = Date.now()
    const start = Math.floor(now / 1000)
    reply = (count) => ({
      body: {
        client_id: `client-${count}`,
        client_secret: 'x'.repeat(20),
        client_secret_expires_at: start + count * 10 * HOUR_S,
      },
    })
    const one = replica(undefined, () => now)
    assert.is((await one.client()).id, 'client-1')
    now += 8.5 * HOUR_S * 1000
    assert.is((await one.client()).id, 'client-1')
    now += HOUR_S * 1000
    assert.is((await one.client()).id, 'client-2')
    assert.is(requests.length, 2)
  })

  test('the client authenticates in a way that the provider’s metadata lists', async () => {
    reply = (_count, path) =>
      path === '/metadata'
        ? {
            status: 200,
            body: {
              registration_endpoint: `${base}/there`,
              token_endpoint_auth_methods_supported: ['private_key_jwt', 'client_secret_post'],
            },
          }
        : { body: { client_id: 'x', client_secret: 'x'.repeat(20) } }
    assert.is((await replica({ discoveryUrl: `${base}/metadata` }).client()).method, 'client_secret_post')
    assert.equal(
      requests.map(({ path }) => path),
      ['/metadata', '/there'],
    )
    assert.is(JSON.parse(requests[1]?.body ?? '').token_endpoint_auth_method, 'client_secret_post')
  })

  test('unusable answers are reported in fixed words, and the request is not repeated at once', async () => {
    const words = 'words of the provider'
    const now = Math.floor(Date.now() / 1000)
    const answers: Reply[] = [
      { status: 500, body: words },
      { status: 302, body: words },
      { status: 400, body: { error: words } },
      { body: words },
      { body: [] },
      { body: {} },
      { body: { client_id: 7 } },
      { body: { client_id: words, client_secret: 'x' } },
      { body: { client_id: 'x' } },
      { body: { client_id: 'x', client_secret: { [words]: 1 } } },
      { body: { client_id: 'x', client_secret: 'a\r\nb' } },
      { body: { client_id: 'x', client_secret: 'x', token_endpoint_auth_method: 'private_key_jwt' } },
      { body: { client_id: 'x', client_secret: 'x', client_secret_expires_at: now - 1 } },
      { body: { client_id: 'x', client_secret: 'x', client_secret_expires_at: 1e308 } },
      { body: { client_id: 'x', client_secret: 'x', client_secret_expires_at: 'soon' } },
      { body: { x: 'y'.repeat(1_100_000) } },
    ]
    for (const answer of answers) {
      requests.length = 0
      reply = () => answer
      // The pause does not end, however slow this machine is.
      const one = replica(undefined, () => now * 1000)
      for (let tries = 0; tries < 3; tries++) {
        const error = await one.client().catch((caught: Error) => caught)
        assert.instance(error, Error, JSON.stringify(answer).slice(0, 80))
        assert.not.ok(String(error).includes(words))
      }
      assert.is(requests.length, 1)
    }
  })

  test('metadata that points to internal addresses is not followed', async () => {
    for (const endpoint of [7, null, 'x', 'ftp://127.0.0.1/', 'http://internal.example/r', 'file:///etc/passwd']) {
      requests.length = 0
      reply = () => ({ status: 200, body: { registration_endpoint: endpoint } })
      const error = await replica({ discoveryUrl: `${base}/metadata` })
        .client()
        .catch((caught: Error) => caught)
      assert.match(String(error), 'no usable registration_endpoint')
      assert.is(requests.length, 1)
    }
  })

  test('a registration that fails lets another replica try at once', async () => {
    reply = () => ({ status: 503, body: '' })
    await replica()
      .client()
      .catch(() => undefined)
    reply = () => ({ body: { client_id: 'x', client_secret: 'x'.repeat(20) } })
    assert.is((await replica().client()).id, 'x')
  })

  test.run()
}
