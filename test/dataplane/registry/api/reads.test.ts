import { type IncomingHttpHeaders, request } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { BodyCache, type ResponseBody } from '../../../../dataplane/registry/api/catalog/bodies.ts'
import {
  type AuthzRegistry,
  type CallerName,
  entryPath,
  listLabels,
  type Reply,
  startAuthzRegistry,
} from '../../../support/registry/authz.ts'
import { registryFile, server, startRegistry, type TestRegistry } from '../../../support/registry/registry.ts'

/** Tests the consumer API's headers, and what is cached of its bodies. */

const ORIGIN = 'https://page.example'
let registry: TestRegistry
/** A registry that distinguishes callers. */
let it: AuthzRegistry
test.before(async () => {
  it = await startAuthzRegistry()
  registry = await startRegistry(
    { own: registryFile(Array.from({ length: 50 }, (_, at) => server(`a/b${at}`))) },
    { cors: { origins: [ORIGIN] } },
  )
})
test.after(async () => {
  await registry.close()
  await it.close()
})

interface Answer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly bytes: Buffer
}

/** Uses node:http, which sends a path unchanged and does not decompress. */
function ask(path: string, headers: Record<string, string> = {}, method = 'GET', url = registry.url): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    request({ hostname, port, path, headers, method }, (response) => {
      const { statusCode: status, headers } = response
      response.toArray().then((chunks) => resolve({ status, headers, bytes: Buffer.concat(chunks) }), reject)
    })
      .on('error', reject)
      .end()
  })
}

const LIST = '/registry/main/v0.1/servers'
const VERSION = `${LIST}/a%2Fb1/versions/latest`

test('HEAD has the headers of GET, compressed or not, and for errors too', async () => {
  for (const [path, status] of [
    [LIST, 200],
    [VERSION, 200],
    [`${LIST}/a%2Fnone/versions`, 404],
    [`${LIST}?limit=0`, 400],
  ] as const)
    for (const encoding of ['identity', 'gzip']) {
      const headers = { 'accept-encoding': encoding, 'x-request-id': 'same' }
      const get = await ask(path, headers)
      const head = await ask(path, headers, 'HEAD')
      assert.is(get.status, status)
      assert.is(get.headers['content-length'], `${get.bytes.length}`)
      assert.is(head.bytes.length, 0)
      const { date, ...rest } = head.headers
      const { date: other, ...expected } = get.headers
      assert.ok(date && other)
      assert.equal(rest, expected, `${encoding} ${path}`)
    }
})

test('every answer has a request id: that of the caller if it is plain, otherwise a new one', async () => {
  for (const path of [LIST, `${LIST}?limit=0`, '/registry/none/v0.1/servers']) {
    assert.is((await ask(path, { 'x-request-id': 'from-the-proxy.1' })).headers['x-request-id'], 'from-the-proxy.1')
    for (const strange of ['a b', 'x'.repeat(65)])
      assert.match(String((await ask(path, { 'x-request-id': strange })).headers['x-request-id']), /^[\da-f-]{36}$/)
  }
})

test('pages of configured origins may read answers and errors; Vary names what an answer depends on', async () => {
  const { etag = '' } = (await ask(LIST)).headers
  for (const [path, more, status] of [
    [LIST, {}, 200],
    [LIST, { 'if-none-match': etag }, 304],
    [`${LIST}?limit=0`, {}, 400],
  ] as const) {
    const allowed = await ask(path, { ...more, origin: ORIGIN })
    assert.is(allowed.status, status)
    assert.is(allowed.headers['access-control-allow-origin'], ORIGIN)
    assert.is(allowed.headers['access-control-expose-headers'], 'ETag, X-Request-Id, WWW-Authenticate, Retry-After')
    assert.match(String(allowed.headers.vary), /^Origin/)
    for (const headers of [undefined, { origin: 'https://other.example' }])
      assert.is((await ask(path, { ...more, ...headers })).headers['access-control-allow-origin'], undefined)
  }
  assert.is((await ask(LIST)).headers.vary, 'Origin, Accept-Encoding')
  for (const path of [`${LIST}/a%2Fnone/versions/latest`, `${LIST}?limit=0`, '/registry/none/v0.1/servers'])
    assert.is((await ask(path)).headers['cache-control'], 'no-store', path)
})

test('a target may name scheme and host; a path that has to be resolved first is not found', async () => {
  const { bytes } = await ask(LIST)
  assert.equal((await ask(`${registry.url}${LIST}`)).bytes, bytes)
  for (const path of [`/x/..${LIST}`, `/registry/main/v0.1/./servers`]) {
    const { status, bytes } = await ask(path)
    assert.is(status, 404, path)
    assert.is(JSON.parse(bytes.toString()).error, 'not_found')
  }
})

test('concurrent requests for the same page all get the page', async () => {
  const path = `${LIST}?limit=49`
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(path, { 'accept-encoding': 'gzip' })))
  for (const { status, bytes } of answers) {
    assert.is(status, 200)
    assert.is(JSON.parse(gunzipSync(bytes).toString()).metadata.count, 49)
  }
  const missing = await Promise.all(Array.from({ length: 20 }, () => ask(`${LIST}/a%2Fnone/versions/latest`)))
  assert.ok(missing.every(({ status }) => status === 404))
})

test('no caller gets another caller’s answer, and a writer sees its own change', async () => {
  const padding = { description: 'x'.repeat(100), _meta: { pad: 'y'.repeat(2_000) } }
  const schema = { $schema: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json' }
  const get = async (caller: CallerName, encoding: string) => {
    const headers = { authorization: `Bearer ${await it.mintToken(caller)}`, 'accept-encoding': encoding }
    const { status, headers: received, bytes } = await ask(LIST, headers, 'GET', it.registry.url)
    assert.is(status, 200)
    const text = received['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes
    return JSON.parse(text.toString()).servers.map((one: { server: { name: string } }) => one.server.name) as string[]
  }
  const publish = async (name: string) => {
    const claims = { org: 'acme', team: 'platform' }
    const { status } = await it.as('platform-writer', 'POST', '/v1/entries', {
      server: { ...server(name), ...schema, ...padding },
      claims,
    })
    assert.is(status, 201)
  }
  for (const name of ['com.acme/one', 'com.acme/two', 'com.acme/three']) {
    await publish(name)
    for (const encoding of ['gzip', 'identity', 'gzip']) {
      assert.ok((await get('platform-writer', encoding)).includes(name), name)
      assert.not.ok((await get('data-writer', encoding)).includes(name), name)
      assert.equal(await get('outsider', encoding), [])
    }
  }
  const token = await it.mintToken('platform-writer')
  const whole = await it.as(`Bearer ${token}`, 'GET', LIST)
  assert.equal(listLabels(whole), await get('platform-writer', 'gzip'))
})

test('claims that change and registries that are removed during a read hide no entry that stays visible', async () => {
  const rounds = 40
  const team = Array.from({ length: rounds }, (_, round) => `t${round}`)
  const claims = { aud: 'https://registry.example', sub: 'own', role: ['writer', 'admin'], org: 'acme', team }
  const own = `Bearer ${await it.idp.mint(claims)}`
  const $schema = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'
  const published = { server: { ...server('com.acme/own'), $schema }, claims: { team: 't0' } }
  assert.is((await it.as(own, 'POST', '/v1/entries', published)).status, 201)
  const brief = { name: 'brief', sources: ['internal'], claims: { org: 'acme' } }

  const answers = new Map<string, number>()
  let done = false
  let requests = 0
  const keepAsking = async (registry: string, rest: () => string) => {
    while (!done) {
      const { status, body } = await it.as(own, 'GET', `/registry/${registry}/v0.1/servers${rest()}`)
      const what = `${registry} ${status}${body.servers === undefined ? '' : ` ${listLabels({ body } as Reply)}`}`
      answers.set(what, (answers.get(what) ?? 0) + 1)
    }
  }
  // A different query each time, so that the store is always asked.
  const search = () =>
    `?search=com.acme/own&updated_since=${new Date(Date.UTC(2020, 0, 1) + 1_000 * requests++).toISOString()}`
  const asking = Array.from({ length: 3 }, () => [
    keepAsking('main', search),
    keepAsking('main', () => '/com.acme%2Fown/versions/latest'),
    keepAsking('brief', search),
  ]).flat()
  for (let round = 1; round < rounds; round++) {
    const changed = { claims: { team: `t${round}` } }
    assert.is((await it.as(own, 'PUT', `${entryPath('com.acme/own')}/claims`, changed)).status, 204)
    assert.is((await it.as(own, 'POST', '/v1/registries', brief)).status, 201)
    assert.is((await it.as(own, 'DELETE', '/v1/registries/brief')).status, 204)
  }
  done = true
  await Promise.all(asking)
  assert.equal([...answers.keys()].sort(), ['brief 200 com.acme/own', 'brief 404', 'main 200', 'main 200 com.acme/own'])
})

test('two Authorization headers are refused', async () => {
  const token = await it.mintToken('super-admin')
  const twice: Answer = await new Promise((resolve, reject) => {
    const { hostname, port } = new URL(it.registry.url)
    const sent = request({ hostname, port, path: LIST }, (response) => {
      const { statusCode: status, headers } = response
      response.toArray().then((chunks) => resolve({ status, headers, bytes: Buffer.concat(chunks) }), reject)
    })
    sent.setHeader('authorization', [`Bearer ${token}`, `Bearer ${token}`] as unknown as string)
    sent.on('error', reject).end()
  })
  assert.is(twice.status, 401)
  assert.match(String(twice.headers['www-authenticate']), /error="invalid_token"/)
})

test('the cache of bodies has a size limit and evicts the least recently used', () => {
  const cache = new BodyCache()
  const body = (bytes: number): ResponseBody => ({ bytes: Buffer.alloc(bytes), gzip: true, revision: '1' })
  const million = 1024 * 1024
  for (let index = 0; index < 31; index++) cache.keep(`${index}`, body(million))
  assert.ok(cache.get('0'))
  for (let index = 31; index < 40; index++) cache.keep(`${index}`, body(million))
  assert.ok(cache.get('0'), 'it was requested')
  assert.is(cache.get('1'), undefined)
  assert.ok(cache.get('39'))
  cache.keep('large', body(5 * million))
  assert.is(cache.get('large'), undefined)
})

test.run()
