import { request } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { acceptsGzip } from '../../../../dataplane/registry/api/catalog/bodies.ts'
import { registryFile, server, startRegistry, type TestRegistry } from '../../../support/registry/registry.ts'

let registry: TestRegistry
test.before(async () => {
  registry = await startRegistry({ own: registryFile(Array.from({ length: 50 }, (_, at) => server(`a/b${at}`))) })
})
test.after(() => registry.close())

interface Answer {
  readonly headers: Record<string, unknown>
  readonly bytes: Buffer
}

/** Uses node:http, which does not decompress. */
function get(path: string, encoding?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(registry.url)
    const headers = encoding === undefined ? {} : { 'accept-encoding': encoding }
    request({ hostname, port, path: `/registry/main/v0.1${path}`, headers }, (response) => {
      response.toArray().then((chunks) => resolve({ headers: response.headers, bytes: Buffer.concat(chunks) }), reject)
    })
      .on('error', reject)
      .end()
  })
}

test('a page is compressed on request, with the same bytes each time', async () => {
  const plain = await get('/servers')
  assert.is(plain.headers['content-encoding'], undefined)
  assert.match(String(plain.headers['vary']), /accept-encoding/i)
  for (const encoding of ['gzip', 'br, gzip;q=0.5', '*', 'GZIP']) {
    const compressed = await get('/servers', encoding)
    assert.is(compressed.headers['content-encoding'], 'gzip', encoding)
    assert.is(compressed.headers['etag'], plain.headers['etag'])
    assert.ok(compressed.bytes.length * 4 < plain.bytes.length)
    assert.equal(gunzipSync(compressed.bytes), plain.bytes)
  }
})

test('another page has another body, and a short answer is not compressed', async () => {
  const page = await get('/servers?limit=40', 'gzip')
  assert.is(JSON.parse(gunzipSync(page.bytes).toString()).metadata.count, 40)
  assert.is((await get('/servers?limit=1', 'gzip')).headers['content-encoding'], undefined)
})

for (const [header, accepted] of [
  [undefined, false],
  ['', false],
  ['identity', false],
  ['br', false],
  ['gzip;q=0', false],
  ['gzip;q=0.0, *', false],
  ['gzip; q=0.1', true],
  ['x-gzip', true],
  ['deflate, gzip', true],
] as const)
  test(`Accept-Encoding ${header}: ${accepted ? 'gzip' : 'plain'}`, () => {
    assert.is(acceptsGzip(header), accepted)
  })

test.run()
