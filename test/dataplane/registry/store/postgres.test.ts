import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { startCutProxy } from '../../../support/network/cut-proxy.ts'
import { openPostgres } from '../../../support/network/open-clients.ts'
import { startPostgres, type TestPostgres } from '../../../support/network/postgres.ts'
import {
  buildConfig,
  labels,
  type RegistryFolder,
  registryFile,
  registryFolder,
  runRegistry,
  server,
  type TestRegistry,
} from '../../../support/registry/registry.ts'

let postgres: TestPostgres
let folders: RegistryFolder[]
let replicas: TestRegistry[]

test.before(async () => {
  postgres = await startPostgres()
  const url = await postgres.database('registry')
  folders = [await registryFolder(), await registryFolder()]
  replicas = []
  for (const folder of folders) {
    await folder.write('a.json', registryFile([server('x/one'), server('x/two')]))
    const own = { name: 'own', managed: {} }
    const config = buildConfig({ a: 'a.json' }, { database: { url, sslMode: 'disable' } })
    await folder.configure({
      ...config,
      sources: [...config.sources, own],
      registries: [{ name: 'main', sources: ['a', 'own'] }],
    })
    replicas.push(await runRegistry(folder))
  }
  for (const replica of replicas) await replica.ready()
})
test.after(async () => {
  for (const replica of replicas) await replica.close()
  await postgres.close()
})

async function publish({ url }: TestRegistry, name: string): Promise<number> {
  const body = JSON.stringify({
    server: {
      $schema: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json',
      ...server(name),
    },
  })
  const headers = { 'content-type': 'application/json' }
  return (await fetch(`${url}/v1/entries`, { method: 'POST', body, headers })).status
}

test('one replica shows what another has synced', async () => {
  const [one, other] = replicas as [TestRegistry, TestRegistry]
  assert.is(await publish(one, 'com.example/new'), 201)
  assert.ok(labels(await one.list('/servers')).includes('com.example/new@1.0.0'))
  await eventually('the other one shows it', async () =>
    labels(await other.list('/servers')).includes('com.example/new@1.0.0'),
  )
  assert.equal(labels(await other.list('/servers')), ['com.example/new@1.0.0', 'x/one@1.0.0', 'x/two@1.0.0'])
})

test('two replicas that poll a source each second write only its changes', async () => {
  const url = await postgres.database('unchanged')
  const folder = await registryFolder()
  await folder.write('a.json', registryFile([server('x/one')]))
  await folder.configure({
    sources: [{ name: 'a', file: { path: '../a.json' }, syncPolicy: { interval: '1s' } }],
    registries: [{ name: 'main', sources: ['a'] }],
    auth: { mode: 'anonymous' },
    database: { url, sslMode: 'disable' },
  })
  const both = [await runRegistry(folder), await runRegistry(folder)]
  const client = openPostgres(url)
  await client.connect()
  // PostgreSQL numbers only transactions that write.
  const next = async () =>
    (await client.query('select pg_snapshot_xmax(pg_current_snapshot())::text as next')).rows[0].next
  const lastAttempts = async () => (await Promise.all(both.map((one) => one.source('a')))).map((one) => one.lastAttempt)
  const looks = async () => {
    const before = await lastAttempts()
    const haveLooked = async () => (await lastAttempts()).every((time, index) => time !== before[index])
    await eventually('both have synced', haveLooked)
  }
  try {
    for (const one of both) await one.ready()
    // PostgreSQL's own maintenance may run in between.
    await eventually(
      'two rounds without a write',
      async () => {
        const before = await next()
        await looks()
        await looks()
        return (await next()) === before
      },
      180_000,
    )
    await folder.write('a.json', registryFile([server('x/one'), server('x/two')]))
    for (const { list } of both)
      await eventually('it is shown', async () => labels(await list('/servers')).length === 2)
  } finally {
    await client.end()
    for (const one of both) await one.stop()
    await folder.remove()
  }
})

test('a replica whose network silently drops packets does not serve its outdated cache', async () => {
  const direct = await postgres.database('silent')
  const { hostname, port } = new URL(direct)
  const network = await startCutProxy({ host: hostname, port: Number(port) })
  const url = Object.assign(new URL(direct), { port: network.port }).href
  const folder = await registryFolder()
  const sources = [{ name: 'own', managed: {} }]
  const registries = [{ name: 'main', sources: ['own'] }]
  const database = { url, sslMode: 'disable' }
  await folder.configure({ sources, registries, auth: { mode: 'anonymous' }, database })
  const replica = await runRegistry(folder)
  try {
    await publish(replica, 'com.example/kept')
    const first = await replica.get('/servers')
    const headers = { 'if-none-match': first.headers.get('etag') ?? '' }
    await first.arrayBuffer()
    assert.is((await replica.get('/servers', headers)).status, 304)

    network.freeze()
    await eventually('it is not ready', async () => (await fetch(`${replica.adminUrl}/readyz`)).status === 503)
    const answer = replica.get('/servers', headers)
    const early = await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 200))])
    assert.is(early, undefined, 'the database is queried')
    network.thaw()
    assert.is((await answer).status, 304)
    await replica.ready()
  } finally {
    network.thaw()
    await replica.close()
    await network.close()
  }
})

test('while the database is unreachable every answer is 503, and service resumes by itself', async () => {
  const etags: string[] = []
  for (const { get } of replicas) etags.push((await get('/servers')).headers.get('etag') ?? '')
  await postgres.crash()
  for (const [index, { url, adminUrl, get }] of replicas.entries()) {
    assert.is((await get('/servers')).status, 503)
    assert.is((await get('/servers', { 'if-none-match': etags[index] ?? '' })).status, 503)
    assert.is((await get('/servers/x%2Fone/versions/latest')).status, 503)
    await eventually('it is not ready', async () => (await fetch(`${adminUrl}/readyz`)).status === 503)
    assert.is((await fetch(`${adminUrl}/healthz`)).status, 200)
    assert.ok(url)
  }
  assert.is(await publish(replicas[0] as TestRegistry, 'com.example/lost'), 503)

  await postgres.start()
  for (const { list, ready } of replicas) {
    await ready()
    assert.equal(labels(await list('/servers')), ['com.example/new@1.0.0', 'x/one@1.0.0', 'x/two@1.0.0'])
  }
  assert.is(await publish(replicas[1] as TestRegistry, 'com.example/later'), 201)
})

test.run()
