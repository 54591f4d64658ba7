import { once } from 'node:events'
import { request } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { registryFile, server, startRegistry, type TestRegistry } from '../../../support/registry/registry.ts'

let registry: TestRegistry
const catalog = { own: registryFile([server('com.example/a')]) }
test.before(async () => {
  registry = await startRegistry(catalog, { allowedHosts: ['catalog.example.com'] })
})
test.after(() => registry.close())

const LIST = '/registry/main/v0.1/servers'
const POST = { 'content-type': 'application/json' }

/** Uses node:http, since fetch sets Host and Origin itself. */
async function ask(method: string, path: string, headers: Record<string, string>, body?: string) {
  const asking = request(`${registry.url}${path}`, { method, headers })
  asking.end(body)
  const [answer] = await once(asking, 'response')
  let text = ''
  for await (const piece of answer.setEncoding('utf8')) text += piece
  return { status: answer.statusCode as number, headers: answer.headers as Record<string, string>, text }
}

for (const [what, method, path, headers, status] of [
  ['the catalog by a name that leads here by DNS', 'GET', LIST, { host: 'evil.example' }, 403],
  ['one entry so', 'GET', `${LIST}/com.example%2Fa/versions`, { host: 'evil.example:8080' }, 403],
  ['the page for people so', 'GET', '/', { host: 'evil.example', accept: 'text/html' }, 403],
  ['the admin API so', 'GET', '/v1/sources', { host: 'evil.example' }, 403],
  ['a write so', 'POST', '/v1/registries', { host: 'evil.example', ...POST }, 403],
  ['the description so', 'GET', '/openapi.json', { host: 'evil.example' }, 403],
  ['a configured name', 'GET', LIST, { host: 'Catalog.example.com:443' }, 200],
  ['the same name again', 'GET', LIST, { host: 'Catalog.example.com:443' }, 200],
  ['an address', 'GET', LIST, { host: '10.1.2.3' }, 200],
  ['localhost', 'GET', '/v1/sources', { host: 'localhost:8080' }, 200],
  ['the catalog for a page of anybody', 'GET', LIST, { origin: 'https://evil.example' }, 200],
  ['a write of a foreign page', 'POST', '/v1/registries', { origin: 'https://evil.example', ...POST }, 403],
  ['a write of a page without a site', 'POST', '/v1/registries', { origin: 'null', ...POST }, 403],
  ['a read of the admin API by a foreign page', 'GET', '/v1/sources', { origin: 'https://evil.example' }, 403],
  ['a question about the admin API', 'OPTIONS', '/v1/registries', { origin: 'https://evil.example' }, 403],
  ['a question about the catalog', 'OPTIONS', LIST, { origin: 'https://evil.example' }, 204],
  ['a page of ours', 'GET', '/v1/sources', { origin: 'https://catalog.example.com' }, 200],
] as const)
  test(`${what}: ${status}`, async () => {
    const before = await ask('GET', '/v1/registries', {})
    const answer = await ask(
      method,
      path,
      headers as unknown as Record<string, string>,
      status === 403 && method === 'POST' ? '{"name": "theirs", "sources": ["own"]}' : undefined,
    )
    assert.is(answer.status, status, answer.text)
    if (status === 403 && path !== '/') assert.is(JSON.parse(answer.text).error, 'forbidden_host')
    assert.is((await ask('GET', '/v1/registries', {})).text, before.text, 'nothing was written')
  })

test('only pages of configured origins can read the catalog', async () => {
  const closed = await startRegistry(catalog, { cors: { origins: ['https://reader.example'] } })
  try {
    const read = (origin: string) => fetch(`${closed.url}${LIST}`, { headers: { origin } })
    assert.is(
      (await read('https://reader.example')).headers.get('access-control-allow-origin'),
      'https://reader.example',
    )
    assert.is((await read('https://evil.example')).headers.get('access-control-allow-origin'), null)
  } finally {
    await closed.close()
  }
})

test.run()
