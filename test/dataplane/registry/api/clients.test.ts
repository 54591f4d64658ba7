import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type List,
  type Listed,
  official,
  registryFile,
  server,
  startRegistry,
  type TestRegistry,
} from '../../../support/registry/registry.ts'

/** Sends the requests of existing registry clients, and checks what each of them needs in the answer. */

let registry: TestRegistry
/** The URL that people enter in their client's settings. */
let base: string

test.before(async () => {
  const servers = Array.from({ length: 120 }, (_, index) => server(`com.example/tool-${index}`, '1.0.0'))
  registry = await startRegistry({ own: registryFile([...servers, server('com.example/tool-7', '1.1.0')]) })
  base = `${registry.url}/registry/main`
})
test.after(() => registry.close())

test('VS Code: probes, lists with raw cursors, and can read every entry', async () => {
  assert.is((await fetch(`${base}/v0.1/servers?limit=1`)).status, 200)

  const seen = new Set<string>()
  for (let cursor = ''; ; ) {
    const url = `${base}/v0.1/servers?limit=50&version=latest${cursor && `&cursor=${cursor}`}`
    const { servers, metadata } = (await (await fetch(url)).json()) as List
    for (const { server: document, _meta } of servers) {
      assert.type(document.name, 'string')
      assert.type(document.description, 'string')
      assert.type(document.version, 'string')
      assert.type(_meta, 'object')
      assert.is(official({ server: document, _meta }).isLatest, true)
      assert.not(seen.has(document.name))
      seen.add(document.name)
    }
    assert.is(metadata.count, servers.length)
    if (metadata.nextCursor === undefined) break
    cursor = metadata.nextCursor
  }
  assert.is(seen.size, 120)
})

test('VS Code: looks up its installed servers, and reads 4xx as not in the registry', async () => {
  const lookUp = (name: string) => fetch(`${base}/v0.1/servers/${encodeURIComponent(name)}/versions/latest`)
  const { server: document } = (await (await lookUp('com.example/tool-7')).json()) as Listed
  assert.is(document.version, '1.1.0')
  assert.is((await lookUp('com.example/other')).status, 404)
  assert.is((await lookUp('a local one')).status, 400)
})

test('VS Code: searches page by page', async () => {
  const first = (await (await fetch(`${base}/v0.1/servers?limit=50&version=latest&search=TOOL-1`)).json()) as List
  assert.is(first.servers.length, 31)
  assert.is(first.metadata.nextCursor, undefined)
})

test('GitHub Copilot: preflight, answers and errors that any page may read', async () => {
  const paths = [
    '/servers',
    '/servers/com.example%2Ftool-7/versions/latest',
    '/servers/com.example%2Ftool-7/versions/1.0.0',
  ]
  for (const path of paths) {
    const preflight = await fetch(`${base}/v0.1${path}`, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://github.com',
        'access-control-request-method': 'GET',
        'access-control-request-headers': 'authorization',
      },
    })
    assert.is(preflight.status, 204)
    assert.is(preflight.headers.get('access-control-allow-origin'), '*')
    assert.is(preflight.headers.get('access-control-allow-methods'), 'GET, OPTIONS')
    assert.is(preflight.headers.get('access-control-allow-headers'), 'Authorization, Content-Type')

    const headers = { origin: 'https://github.com', authorization: 'Bearer whatever' }
    const answer = await fetch(`${base}/v0.1${path}`, { headers })
    assert.is(answer.status, 200)
    assert.is(answer.headers.get('access-control-allow-origin'), '*')
    assert.is(answer.headers.get('content-type'), 'application/json')
  }
  const missing = await fetch(`${base}/v0.1/servers/a%2Fb/versions/latest`, {
    headers: { origin: 'https://github.com' },
  })
  assert.is(missing.headers.get('access-control-allow-origin'), '*')
})

test('thv reads pages of 100', async () => {
  const { servers, metadata } = await registry.list('/servers?version=latest&limit=100')
  assert.is(servers.length, 100)
  const rest = await registry.list(`/servers?version=latest&limit=100&cursor=${metadata.nextCursor}`)
  assert.is(rest.servers.length, 20)
})

test.run()
