import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ConfigError } from '../../../../dataplane/config/load.ts'
import { serveRegistry } from '../../../../dataplane/registry/index.ts'
import { type Operation, type Outcome, observeNothing } from '../../../../dataplane/telemetry/observe.ts'
import { eventually } from '../../../support/eventually.ts'
import { recordLog } from '../../../support/kept-log.ts'
import {
  buildConfig,
  labels,
  type RegistryFolder,
  registryFile,
  registryFolder,
  runRegistry,
  server,
  startRegistry,
} from '../../../support/registry/registry.ts'
import { renameTable } from '../../../support/registry/rename-table.ts'

let folder: RegistryFolder
test.before.each(async () => {
  folder = await registryFolder()
  await folder.write('own.json', registryFile([server('a/b')]))
  await folder.configure(buildConfig({ own: 'own.json' }))
})
test.after.each(() => folder.remove())

const serve = (rest: object = {}) =>
  serveRegistry({
    configFile: folder.configFile,
    stateDirectory: folder.stateDirectory,
    listen: '127.0.0.1:0',
    adminListen: '127.0.0.1:0',
    log: recordLog().log,
    ...rest,
  })

const failure = async (work: Promise<unknown>): Promise<Error> => {
  try {
    await work
  } catch (error) {
    return error as Error
  }
  return assert.unreachable('it should have failed') as never
}

test('the admin listener serves health, readiness and status', async () => {
  const version = { version: '1.2.3', node: 'v24.0.0', apiGroup: 'portico.dev' }
  const { adminUrl, close } = await serve({ version })
  const get = async (path: string) => {
    const response = await fetch(adminUrl + path)
    return { status: response.status, body: await response.json() }
  }
  assert.equal(await get('/healthz'), { status: 200, body: { status: 'ok' } })
  await eventually('it is ready', async () => (await get('/readyz')).status === 200)
  assert.equal((await get('/version')).body, version)
  const { config, refused, registries, sources } = (await get('/status')).body as never
  assert.match(config, /^sha256:[0-9a-f]{64}$/)
  assert.equal(refused, [])
  assert.equal(registries, [{ name: 'main', sources: ['own'], claims: {} }])
  const [{ lastAttempt, lastSuccess, nextRun, ...rest }] = sources as [Record<string, string>]
  assert.equal(rest, {
    name: 'own',
    state: 'ok',
    tried: true,
    attempts: 0,
    error: null,
    servers: 1,
    skills: 0,
    leftOut: 0,
    problems: [],
  })
  for (const time of [lastAttempt, lastSuccess, nextRun]) assert.is(new Date(time ?? '').toISOString(), time)
  await close()
})

test('a registry is not ready before the first sync of each source has ended, but serves', async () => {
  await folder.write('own.json', registryFile(Array.from({ length: 20_000 }, (_, index) => server(`a/n${index}`))))
  const registry = await runRegistry(folder)
  const readiness = await fetch(`${registry.adminUrl}/readyz`)
  assert.is(readiness.status, 503)
  assert.equal(await readiness.json(), { status: 'not ready', reason: 'the first sync of own has not ended' })
  assert.is((await registry.get('/servers')).status, 200)
  await registry.ready()
  await registry.stop()
})

test('an invalid configuration ends the start with its findings, and leaves nothing behind', async () => {
  await folder.configure({ sources: {}, auth: { mode: 'oauth' } })
  const error = await failure(serve())
  assert.instance(error, ConfigError)
  const pointers = (error as ConfigError).findings.map(({ pointer }) => pointer)
  assert.equal(pointers.sort(), ['/auth/oauth', '/registries', '/sources'])
})

test('an empty configuration starts, and the admin API fills the registry', async () => {
  await folder.configure({ sources: [], registries: [], auth: { mode: 'anonymous' } })
  const registry = await runRegistry(folder)
  await registry.ready()
  const create = (what: string, body: object) =>
    fetch(`${registry.url}/v1/${what}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const data = registryFile(
    [server('com.example/a'), { name: 'nothing' }],
    [
      { namespace: 'com.example', name: 'cook', version: '1.0.0' },
      { namespace: 'com.example', name: 'cook', version: '1.1.0' },
    ],
  )
  assert.is((await create('sources', { name: 'made', file: { data } })).status, 201)
  assert.is((await create('registries', { name: 'main', sources: ['made'] })).status, 201)
  await fetch(`${registry.url}/v1/sources/made/sync?wait=true`, { method: 'POST' })
  assert.equal(labels(await registry.list('/servers')), ['com.example/a@1.0.0'])

  const { problems: reported } = await registry.source('made')
  const fetchJson = async (path: string) =>
    (await (await fetch(`${registry.url}${path}`)).json()) as Record<string, never>
  const source = await fetchJson('/v1/sources/made')
  assert.equal([source['leftOut'], source['problems']], [1, reported])
  assert.is(reported[0]?.pointer, '/data/servers/1')
  const [listed] = ((await fetchJson('/v1/sources'))['sources'] ?? []) as readonly object[]
  assert.ok(listed && !('problems' in listed))

  for (const path of ['com.example/cook', 'com.example%2Fcook', 'com.example/cook/versions/latest']) {
    const answer = await registry.get(`/x/portico/skills/${path}`)
    assert.is(answer.status, 200)
    assert.is(((await answer.json()) as { skill: { version: string } }).skill.version, '1.1.0')
  }
  assert.is((await registry.get('/x/portico/skills/com.example/none')).status, 404)
  await registry.stop()
})

test('a taken port is named', async () => {
  const blocker = createServer().listen(0, '127.0.0.1')
  await eventually('it listens', () => blocker.listening)
  const { port } = blocker.address() as { port: number }
  for (const listener of ['listen', 'adminListen'])
    assert.match(
      (await failure(serve({ [listener]: `127.0.0.1:${port}` }))).message,
      new RegExp(`port ${port} is taken`),
    )
  blocker.close()
})

test('an unusable state directory is named', async () => {
  const file = join(folder.directory, 'file')
  await writeFile(file, '')
  assert.match((await failure(serve({ stateDirectory: join(file, 'state') }))).message, /file\/state can’t be made/)
})

test('a store file that is not a database is named', async () => {
  await mkdir(folder.stateDirectory)
  await writeFile(join(folder.stateDirectory, 'catalog.sqlite'), 'not a database, '.repeat(100))
  const { message } = await failure(serve())
  assert.match(message, /catalog\.sqlite can’t be opened: file is not a database/)
})

test('requests and syncs are reported to telemetry under fixed names', async () => {
  const seen: string[] = []
  const observe = ({ kind, name }: Operation) => {
    return {
      ...observeNothing({ kind, name }),
      end({ result, code }: Outcome) {
        seen.push([kind, name, result, code].filter((part) => part !== undefined).join(' '))
      },
    }
  }
  const registry = await runRegistry(folder, { observe })
  await registry.ready()
  await registry.get('/servers')
  await registry.get('/servers?limit=0')
  await registry.get('/servers/a%2Fb/versions')
  await registry.get('/servers/a%2Fz/versions/latest')
  await registry.stop()
  assert.equal(
    seen.filter((operation) => !operation.startsWith('store ')),
    [
      'sync own ok',
      'request listServers ok',
      'request listServers error invalid_request',
      'request listServerVersions ok',
      'request getServerVersion error not_found',
    ],
  )
  // The statements themselves are the store's own concern.
  assert.equal([...new Set(seen.filter((operation) => operation.startsWith('store ')))], ['store sqlite ok'])
})

test('a writing thread that dies costs one attempt: the store stays intact, and the next sync starts a new thread', async () => {
  const threads: Worker[] = []
  const collect = (thread: Worker) => threads.push(thread)
  process.on('worker', collect)
  const registry = await runRegistry(folder)
  await registry.ready()
  await threads[0]?.terminate()
  await folder.write('own.json', registryFile([server('a/b'), server('a/c')]))
  await eventually('it is synced', async () => labels(await registry.list('/servers')).length === 2)
  assert.is(threads.length, 2)

  await folder.write('own.json', registryFile(Array.from({ length: 20_000 }, (_, index) => server(`a/n${index}`))))
  await eventually('a sync has begun', () => existsSync(join(folder.stateDirectory, 'syncing', 'own')))
  await threads[1]?.terminate()
  await eventually('it has failed', async () => (await registry.source('own')).error?.code === 'put_aside')
  assert.is(labels(await registry.list('/servers')).length, 2)
  process.off('worker', collect)
  await registry.stop()
})

test('closing waits for a running sync, and the next start finds everything', async () => {
  await folder.write('own.json', registryFile(Array.from({ length: 5_000 }, (_, index) => server(`a/n${index}`))))
  const first = await runRegistry(folder)
  await first.stop()
  const second = await runRegistry(folder)
  await second.ready()
  assert.is((await second.source('own')).servers, 5_000)
  await second.stop()
})

test('while the store is unreachable answers are 503 with a clear body, and recover with it', async () => {
  const registry = await startRegistry({ own: registryFile([server('a/b')]) })
  const { folder: its } = registry
  await renameTable(its.stateDirectory, 'listing', 'elsewhere')
  for (const path of ['/servers', '/servers/a%2Fb/versions', '/servers/a%2Fb/versions/latest']) {
    const response = await registry.get(path)
    assert.is(response.status, 503)
    assert.is(((await response.json()) as { error: string }).error, 'unavailable')
  }
  await its.write('own.json', registryFile([server('a/b'), server('a/c')]))
  await eventually('the sync fails', async () => (await registry.source('own')).error?.code === 'store_failed')

  await renameTable(its.stateDirectory, 'elsewhere', 'listing')
  // The failed sync is retried automatically.
  assert.is(labels(await registry.list('/servers'))[0], 'a/b@1.0.0')
  await its.write('own.json', registryFile([server('a/b'), server('a/c'), server('a/d')]))
  await eventually('it is synced again', async () => labels(await registry.list('/servers')).length === 3)
  await registry.close()
})

test.run()
