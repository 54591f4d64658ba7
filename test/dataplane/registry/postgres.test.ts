import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { startPostgres, type TestPostgres } from '../../support/postgres.ts'
import {
  configOf,
  labels,
  type RegistryFolder,
  registryFile,
  registryFolder,
  runRegistry,
  server,
  type TestRegistry,
} from '../../support/registry.ts'

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
    const config = configOf({ a: 'a.json' }, { database: { url, sslMode: 'disable' } })
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

test('what one replica takes in, the other shows within a second', async () => {
  const [one, other] = replicas as [TestRegistry, TestRegistry]
  assert.is(await publish(one, 'com.example/new'), 201)
  assert.ok(labels(await one.list('/servers')).includes('com.example/new@1.0.0'))
  await eventually(
    'the other one shows it',
    async () => labels(await other.list('/servers')).includes('com.example/new@1.0.0'),
    1_000,
  )
  assert.equal(labels(await other.list('/servers')), ['com.example/new@1.0.0', 'x/one@1.0.0', 'x/two@1.0.0'])
})

test('while the database is away every answer is 503, and it goes on by itself when it is back', async () => {
  await postgres.crash()
  for (const { url, adminUrl, get } of replicas) {
    assert.is((await get('/servers')).status, 503)
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
