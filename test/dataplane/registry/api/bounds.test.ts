import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { registryFile, server, startRegistry, type TestRegistry } from '../../../support/registry/registry.ts'

let registry: TestRegistry
test.before(async () => {
  const buildServer = (name: string, version: string) => server(name, version, { description: 'd'.repeat(20_000) })
  const versions = Array.from({ length: 110 }, (_, index) => index)
  const names = Array.from({ length: 10 }, (_, index) => `x/n${index + 10}`)
  const house = registryFile(names.flatMap((name) => versions.map((patch) => buildServer(name, `1.0.${patch}`))))
  registry = await startRegistry({ house }, { limits: { managedBytes: 4_096, bodyBytes: 2 ** 20 } })
})
test.after(() => registry.close())

async function ask(method: string, path: string, body?: object) {
  const response = await fetch(`${registry.url}${path}`, {
    method,
    ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, size: text.length, body: JSON.parse(text || 'null') as Answer }
}

interface Answer {
  readonly error?: string
  readonly message?: string
  readonly details?: readonly { readonly pointer: string }[]
  readonly entries?: readonly { readonly name: string; readonly versions: readonly object[] }[]
  readonly metadata?: { readonly nextCursor?: string }
}

for (const list of ['/v1/sources/house/entries', '/v1/registries/main/entries'])
  test(`${list} has pages of at most 8 MiB, with the newest versions of each entry`, async () => {
    const met: string[] = []
    let cursor: string | undefined = ''
    for (; cursor !== undefined; ) {
      const { status, size, body } = await ask('GET', `${list}?limit=100&cursor=${cursor}`)
      assert.is(status, 200)
      assert.ok(size < 9 * 2 ** 20, `${size} bytes`)
      for (const { name, versions } of body.entries ?? []) {
        met.push(name)
        assert.is(versions.length, 100)
        assert.is((versions[0] as { version: string }).version, '1.0.109')
      }
      cursor = body.metadata?.nextCursor
    }
    assert.is(met.length, 10)
    assert.is(new Set(met).size, 10)
  })

test('a body with many mistakes gets the first hundred and their number, one with very many only the first', async () => {
  const unknown = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`x${index}`, 1]))
  const some = await ask('POST', '/v1/sources', { name: 'a', managed: {}, ...unknown(500) })
  assert.is(some.status, 400)
  assert.is(some.body.details?.length, 100)
  assert.match(some.body.message ?? '', '500 findings')
  const many = await ask('POST', '/v1/sources', { name: 'a', managed: {}, ...unknown(50_000) })
  assert.is(many.status, 400)
  assert.is(many.body.details?.length, 1)
})

test('settings of API sources and documents of a managed source have limits in bytes', async () => {
  assert.is((await ask('PUT', '/v1/sources/own', { managed: {} })).status, 201)
  const publish = (name: string, letters: number) =>
    ask('POST', '/v1/entries', { source: 'own', server: { ...server(name), filler: 'x'.repeat(letters) } })
  assert.is((await publish('own/a', 3_000)).status, 201)
  const full = await publish('own/b', 3_000)
  assert.equal([full.status, full.body.error], [409, 'conflict'])
  assert.match(full.body.message ?? '', 'managedBytes')
  assert.is((await publish('own/a', 3_000)).status, 200, 'existing versions do not count')
  assert.is((await publish('own/c', 100)).status, 201)

  const data = JSON.stringify({ filler: 'x'.repeat(900_000) })
  const statuses: number[] = []
  for (let index = 0; index < 10; index++)
    statuses.push((await ask('PUT', `/v1/sources/s${index}`, { file: { data } })).status)
  assert.equal(statuses, [201, 201, 201, 201, 201, 201, 201, 201, 201, 409])
})

test.run()
