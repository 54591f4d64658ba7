import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { startUpstream, type Upstream } from '../../../support/network/upstream.ts'
import { labels, registryFile, server, type TestRegistry } from '../../../support/registry/registry.ts'
import { endRegistry, startRegistryWith } from '../../../support/registry/source-registry.ts'

const file = (...names: string[]) => registryFile(names.map((name) => server(`com.example/${name}`)))

let upstream: Upstream
let registry: TestRegistry | undefined
test.after.each(async () => {
  await registry?.close()
  registry = undefined
  await upstream?.close()
})
test.after(endRegistry)

const waitForEntries = (wanted: readonly string[]) =>
  eventually(
    `${wanted}`,
    async () => JSON.stringify(labels(await (registry as TestRegistry).list('/servers'))) === JSON.stringify(wanted),
  )

test('a file at a URL is requested with validators; an unchanged one is neither sent nor read', async () => {
  let text = file('a')
  upstream = await startUpstream((_url, response, request) => {
    const etag = `"${text.length}"`
    if (request.headers['if-none-match'] === etag) response.writeHead(304).end()
    else response.writeHead(200, { etag, 'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT' }).end(text)
  })
  registry = await startRegistryWith({ file: { url: `${upstream.url}/registry.json` } })
  await waitForEntries(['com.example/a@1.0.0'])
  await eventually('a second poll', () => upstream.requests.length >= 2)
  assert.is(upstream.requests[1]?.headers['if-none-match'], `"${file('a').length}"`)
  assert.is(upstream.requests[1]?.headers['if-modified-since'], 'Thu, 01 Jan 2026 00:00:00 GMT')
  text = file('a', 'bb')
  await waitForEntries(['com.example/a@1.0.0', 'com.example/bb@1.0.0'])
  await eventually(
    'both syncs are logged',
    () => registry?.log.lines.filter(({ msg }) => msg === 'synced').length === 2,
  )
})

test('an unreadable file is not sent again while it is unchanged, and does not count as the previous one', async () => {
  let text = '{'
  let sent = 0
  upstream = await startUpstream((_url, response, request) => {
    const etag = `"${text.length}"`
    if (request.headers['if-none-match'] === etag) return void response.writeHead(304).end()
    sent++
    response.writeHead(200, { etag }).end(text)
  })
  registry = await startRegistryWith({ file: { url: `${upstream.url}/registry.json` } })
  await eventually('more polls', () => upstream.requests.length >= 4)
  assert.is(sent, 1)
  await eventually('it fails', async () => (await registry?.source('own'))?.state === 'failed')
  assert.is((await registry.source('own')).error?.code, 'not_json')
  text = file('a')
  await waitForEntries(['com.example/a@1.0.0'])
})

test('an unrequested 304 is an error', async () => {
  let status = 200
  upstream = await startUpstream((_url, response) => response.writeHead(status).end(status === 200 ? file('a') : ''))
  registry = await startRegistryWith({ file: { url: `${upstream.url}/registry.json` } })
  await waitForEntries(['com.example/a@1.0.0'])
  status = 304
  await eventually('it fails', async () => (await registry?.source('own'))?.state === 'failed')
  await waitForEntries(['com.example/a@1.0.0'])
})

test('an unusable answer is reported with its URL, without keys', async () => {
  upstream = await startUpstream((url, response) =>
    url.pathname === '/there'
      ? response.writeHead(302, { location: '/gone.json?key=secret' }).end()
      : response.writeHead(404).end(),
  )
  registry = await startRegistryWith({ file: { url: `${upstream.url}/there` } })
  await eventually('it fails', async () => (await registry?.source('own'))?.state === 'failed')
  const { error } = await registry.source('own')
  assert.equal(error, { code: 'refused', message: `the upstream answers 404 for ${upstream.url}/gone.json` })
})

test('a redirect is followed', async () => {
  upstream = await startUpstream((url, response) =>
    url.pathname === '/here'
      ? response.writeHead(200).end(file('a'))
      : response.writeHead(302, { location: '/here' }).end(),
  )
  registry = await startRegistryWith({ file: { url: `${upstream.url}/there` } })
  await waitForEntries(['com.example/a@1.0.0'])
})

test('a configured source may be at any address; its redirects may not', async () => {
  // Only this machine serves at the unspecified address, which stands for link-local ones here.
  upstream = await startUpstream((url, response) => {
    const { port } = new URL(upstream.url)
    if (url.pathname === '/away') response.writeHead(302, { location: `http://0.0.0.0:${port}/registry.json` }).end()
    else response.writeHead(200).end(file('a'))
  })
  const { port } = new URL(upstream.url)
  registry = await startRegistryWith({ file: { url: `http://0.0.0.0:${port}/registry.json` } })
  await waitForEntries(['com.example/a@1.0.0'])
  await registry.close()
  registry = await startRegistryWith({ file: { url: `${upstream.url}/away` } })
  await eventually('it is refused', async () => {
    const { error } = await (registry as TestRegistry).source('own')
    return error?.code === 'private_address'
  })
})

test('a file of some megabytes is read in any chunks; half of it changes nothing', async () => {
  const servers = Array.from({ length: 400 }, (_, index) =>
    server(`com.example/n${index}`, '1.0.0', { description: `${index} `.repeat(3_000) }),
  )
  let text = registryFile(servers)
  upstream = await startUpstream((_url, response) => void response.writeHead(200).end(text))
  registry = await startRegistryWith({ file: { url: `${upstream.url}/registry.json` } })
  const count = async () => (await (registry as TestRegistry).source('own')).servers
  await eventually('all are there', async () => (await count()) === 400)
  const last = () => (registry as TestRegistry).one('/servers/com.example%2Fn399/versions/latest')
  assert.is((await last()).server.description, '399 '.repeat(3_000))

  text = text.replaceAll('1.0.0', '2.0.0').slice(0, -1_000)
  const hasFailed = async () => (await (registry as TestRegistry).source('own')).error?.code === 'not_json'
  await eventually('half of a file is reported', hasFailed)
  assert.is(await count(), 400)
  assert.is((await last()).server.version, '1.0.0')
  const database = new DatabaseSync(join(registry.folder.stateDirectory, 'catalog.sqlite'), { readOnly: true })
  const countIn = (table: string) => database.prepare(`select count(*) as count from ${table}`).get()?.['count']
  // It is read again repeatedly.
  await eventually('nothing of it is left', () => countIn('staged_version') === 0 && countIn('document') === 400)
  database.close()
})

test('downloads do not stay on disk', async () => {
  upstream = await startUpstream((_url, response) => void response.writeHead(200).end(file('a')))
  registry = await startRegistryWith({ file: { url: `${upstream.url}/registry.json` } })
  await waitForEntries(['com.example/a@1.0.0'])
  const folder = join(registry.folder.stateDirectory, 'fetched')
  await eventually('it is removed', async () => (await readdir(folder)).length === 0)
})

test('the same bytes cause no write, with and without validators', async () => {
  let knows = true
  upstream = await startUpstream((_url, response, request) => {
    if (knows && request.headers['if-none-match'] === '"1"') response.writeHead(304).end()
    else response.writeHead(200, knows ? { etag: '"1"' } : {}).end(file('a'))
  })
  registry = await startRegistryWith({ file: { url: `${upstream.url}/registry.json` } })
  await waitForEntries(['com.example/a@1.0.0'])
  await eventually('it is reported', async () => (await (registry as TestRegistry).source('own')).state === 'ok')
  const database = new DatabaseSync(join(registry.folder.stateDirectory, 'catalog.sqlite'), { readOnly: true })
  const commits = () => database.prepare('pragma data_version').get()?.['data_version']
  const before = commits()
  for (const mode of [true, false]) {
    knows = mode
    const looks = upstream.requests.length
    await eventually('two polls', () => upstream.requests.length >= looks + 2)
  }
  const { lastAttempt } = await registry.source('own')
  await eventually(
    'their end',
    async () => (await (registry as TestRegistry).source('own')).lastAttempt !== lastAttempt,
  )
  assert.is(commits(), before)
  database.close()
})

test('inline data is served, also after a change', async () => {
  upstream = await startUpstream(() => undefined)
  registry = await startRegistryWith({ file: { data: file('a') } })
  await waitForEntries(['com.example/a@1.0.0'])
  await registry.folder.configure({
    sources: [{ name: 'own', file: { data: file('b') } }],
    registries: [{ name: 'main', sources: ['own'] }],
    auth: { mode: 'anonymous' },
  })
  await waitForEntries(['com.example/b@1.0.0'])
})

test('an edited filter applies at once, without a change of the data', async () => {
  upstream = await startUpstream((_url, response) => void response.writeHead(200).end(file('a', 'b')))
  const source = { file: { url: `${upstream.url}/registry.json` } }
  registry = await startRegistryWith(source, { interval: '1h' })
  await waitForEntries(['com.example/a@1.0.0', 'com.example/b@1.0.0'])
  await registry.folder.configure({
    sources: [{ name: 'own', ...source, syncPolicy: { interval: '1h' }, filter: { names: { exclude: ['*/b'] } } }],
    registries: [{ name: 'main', sources: ['own'] }],
    auth: { mode: 'anonymous' },
  })
  await waitForEntries(['com.example/a@1.0.0'])
})

test.run()
