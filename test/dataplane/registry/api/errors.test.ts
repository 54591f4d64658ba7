import { request } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { registryFile, server, startRegistry, type TestRegistry } from '../../../support/registry/registry.ts'

let registry: TestRegistry
let foreignCursor = ''

test.before(async () => {
  registry = await startRegistry({ own: registryFile([server('a/b'), server('a/c')]) })
  foreignCursor = (await registry.list('/servers?limit=1&search=a')).metadata.nextCursor as string
})
test.after(() => registry.close())

const MAIN = '/registry/main/v0.1/servers'

/** The path, and the pointer that the 400's finding must have. */
const invalid: [path: () => string, pointer: string][] = [
  [() => `${MAIN}?limit=0`, '/limit'],
  [() => `${MAIN}?limit=101`, '/limit'],
  [() => `${MAIN}?limit=-1`, '/limit'],
  [() => `${MAIN}?limit=1.5`, '/limit'],
  [() => `${MAIN}?limit=1e1`, '/limit'],
  [() => `${MAIN}?limit=ten`, '/limit'],
  [() => `${MAIN}?limit=99999999999999999999`, '/limit'],
  [() => `${MAIN}?cursor=x`, '/cursor'],
  [() => `${MAIN}?cursor=%00`, '/cursor'],
  [() => `${MAIN}?cursor=a%2Fb%3A1.0.0`, '/cursor'],
  [() => `${MAIN}?cursor=${foreignCursor}`, '/cursor'],
  [() => `${MAIN}?search=b&cursor=${foreignCursor}`, '/cursor'],
  [() => `${MAIN}?search=a&include_deleted=true&cursor=${foreignCursor}`, '/cursor'],
  [() => `${MAIN}?updated_since=yesterday`, '/updated_since'],
  [() => `${MAIN}?updated_since=2026-01-01`, '/updated_since'],
  [() => `${MAIN}?updated_since=2026-13-01T00:00:00Z`, '/updated_since'],
  [() => `${MAIN}?updated_since=2026-02-30T00:00:00Z`, '/updated_since'],
  [() => `${MAIN}?updated_since=2026-02-28T24:00:00Z`, '/updated_since'],
  [() => `${MAIN}?updated_since=2026-01-01T00:00:00`, '/updated_since'],
  [() => `${MAIN}?include_deleted=yes`, '/include_deleted'],
  [() => `${MAIN}?search=${'x'.repeat(201)}`, '/search'],
  [() => `${MAIN}?version=${'1'.repeat(256)}`, '/version'],
  [() => `${MAIN}?version=%0A`, '/version'],
  [() => `${MAIN}/plain/versions`, '/name'],
  [() => `${MAIN}/plain/versions/latest`, '/name'],
  [() => `${MAIN}/a%2Fb%2Fc/versions`, '/name'],
  [() => `${MAIN}/a%252Fb/versions`, '/name'],
  [() => `${MAIN}/a%2Fb%20/versions`, '/name'],
  [() => `${MAIN}/a%2Fb%zz/versions`, '/name'],
  [() => `${MAIN}/a%2F${'b'.repeat(199)}/versions`, '/name'],
  [() => `${MAIN}/a%2Fb/versions?include_deleted=1`, '/include_deleted'],
  [() => `${MAIN}/a%2Fb/versions/${'1'.repeat(256)}`, '/version'],
  [() => `${MAIN}/a%2Fb/versions/1%00`, '/version'],
]
for (const [path, pointer] of invalid)
  test(`400 ${path().slice(0, 80)}`, async () => {
    const { status, body, headers } = await get(path())
    assert.is(status, 400)
    assert.is(body.error, 'invalid_request')
    assert.equal(
      body.details?.map((detail) => detail.pointer),
      [pointer],
    )
    assert.ok((body.details?.[0]?.message ?? '').length > 5)
    assert.is(headers['access-control-allow-origin'], '*')
  })

test('a 400 lists all mistakes', async () => {
  const { body } = await get(`${MAIN}?limit=0&updated_since=x&include_deleted=x&search=${'x'.repeat(300)}`)
  assert.equal(body.details?.map(({ pointer }) => pointer).sort(), [
    '/include_deleted',
    '/limit',
    '/search',
    '/updated_since',
  ])
})

const unknown = [
  '/registry/other/v0.1/servers',
  '/registry/other/v0.1/servers?limit=0',
  '/registry/other/v0.1/servers/a%2Fb/versions',
  '/registry/other/v0.1/servers/plain/versions',
  '/registry/MAIN/v0.1/servers',
  '/registry/%2E%2E/v0.1/servers',
  `${MAIN}/a%2Fz/versions`,
  `${MAIN}/a%2FB/versions`,
  `${MAIN}/a%2Fz/versions/latest`,
  `${MAIN}/a%2Fb/versions/9.9.9`,
  `${MAIN}/a%2Fb/versions/LATEST`,
  `${MAIN}/a%2Fb/versions/1.0.0%2B1`,
  '/registry/main/v0.1',
  '/registry/main/v0.2/servers',
  '/registry/main/servers',
  '/nothing',
]
for (const path of unknown)
  test(`404 ${path}: one body for all`, async () => {
    const { status, body } = await get(path)
    assert.is(status, 404)
    assert.equal(body, { error: 'not_found', message: 'Not found.' })
  })

for (const [path, allow] of [
  [MAIN, 'GET, HEAD, OPTIONS'],
  [`${MAIN}/a%2Fb/versions`, 'GET, HEAD, OPTIONS'],
  [`${MAIN}/a%2Fb/versions/latest`, 'GET, HEAD, OPTIONS'],
  ['/v1/me', 'GET, HEAD'],
  ['/v1/sources', 'GET, POST, HEAD'],
  ['/v1/entries', 'POST'],
] as const)
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].filter((one) => !allow.includes(one)))
    test(`405 ${method} ${path}`, async () => {
      const { status, body, headers } = await get(path, method)
      assert.is(status, 405)
      assert.is(body.error, 'method_not_allowed')
      assert.is(headers['allow'], allow)
    })

for (const path of ['/openapi.json', '/openapi.yaml'])
  test(`405 POST ${path}`, async () => {
    const { status, body, headers } = await get(path, 'POST')
    assert.is(status, 405)
    assert.is(body.error, 'method_not_allowed')
    assert.is(headers['allow'], 'GET, HEAD')
  })

test('the lengths of a search and a version are counted in characters, not in UTF-16 units', async () => {
  const encodeWide = (length: number) => encodeURIComponent('\u{1f600}'.repeat(length))
  for (const [path, status] of [
    [`${MAIN}?search=${encodeWide(200)}`, 200],
    [`${MAIN}?search=${encodeWide(201)}`, 400],
    [`${MAIN}?version=${encodeWide(255)}`, 200],
    [`${MAIN}?version=${encodeWide(256)}`, 400],
  ] as const)
    assert.is((await get(path)).status, status, path)
})

test('401 /v1/me in anonymous mode, since there is no caller to describe', async () => {
  const { status, body, headers } = await get('/v1/me')
  assert.is(status, 401)
  assert.is(body.error, 'unauthenticated')
  assert.is(headers['www-authenticate'], 'Bearer')
})

interface Answer {
  readonly status: number | undefined
  readonly headers: Record<string, unknown>
  readonly body: { error?: string; message?: string; details?: { pointer: string; message: string }[] }
}

/** Uses node:http: `fetch` would normalize the path. */
function get(path: string, method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(registry.url)
    const sent = request({ hostname, port, path, method }, (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () =>
        resolve({ status: response.statusCode, headers: response.headers, body: JSON.parse(text) }),
      )
    })
    sent.on('error', reject)
    sent.end()
  })
}

test.run()
