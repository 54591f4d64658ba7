import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import {
  buildConfig,
  type List,
  labels,
  registryFile,
  server,
  type TestRegistry,
} from '../../../support/registry/registry.ts'
import { endRegistry, registryOver } from '../../../support/registry/source-registry.ts'

let registry: TestRegistry

const names = ['com.example/a', 'com.example/b', 'io.other/c']
test.before.each(async () => {
  registry = await registryOver({
    own: registryFile(names.map((name) => server(name))),
    more: registryFile([server('com.example/a', '9.0.0'), server('io.more/d')]),
  })
})
test.after.each(() => registry.close())
test.after(endRegistry)

const files = { own: 'own.json', more: 'more.json' }
const withFilter = (filter: object) => {
  const config = buildConfig(files)
  return {
    ...config,
    sources: config.sources.map((source) => (source.name === 'own' ? { ...source, filter } : source)),
  }
}

async function waitForEntries(wanted: readonly string[], registryName = 'main') {
  const url = `${registry.url}/registry/${registryName}/v0.1/servers`
  await eventually(`${registryName} shows ${wanted.join(', ')}`, async () => {
    const response = await fetch(url)
    return response.status === 200 && labels((await response.json()) as List).join() === wanted.join()
  })
}

const ALL = ['com.example/a@1.0.0', 'com.example/b@1.0.0', 'io.more/d@1.0.0', 'io.other/c@1.0.0']

test('a changed filter applies at once to an unchanged file, and so does its removal', async () => {
  await waitForEntries(ALL)
  await registry.folder.configure(withFilter({ names: { exclude: ['com.example/*'] } }))
  await waitForEntries(['com.example/a@9.0.0', 'io.more/d@1.0.0', 'io.other/c@1.0.0'])
  await registry.folder.configure(buildConfig(files))
  await waitForEntries(ALL)
})

test('the order of sources decides who has a name', async () => {
  await registry.folder.configure(buildConfig(files, { registries: [{ name: 'main', sources: ['more', 'own'] }] }))
  await waitForEntries(['com.example/a@9.0.0', 'com.example/b@1.0.0', 'io.more/d@1.0.0', 'io.other/c@1.0.0'])
})

test('registries can be added and removed', async () => {
  await registry.folder.configure(
    buildConfig(files, {
      registries: [
        { name: 'main', sources: ['own'] },
        { name: 'extra', sources: ['more'] },
      ],
    }),
  )
  await waitForEntries(['com.example/a@9.0.0', 'io.more/d@1.0.0'], 'extra')
  await waitForEntries(['com.example/a@1.0.0', 'com.example/b@1.0.0', 'io.other/c@1.0.0'])
  await registry.folder.configure(buildConfig(files))
  await eventually(
    'extra is gone',
    async () => (await fetch(`${registry.url}/registry/extra/v0.1/servers`)).status === 404,
  )
  await waitForEntries(ALL)
})

test('sources can be added and removed, and one may change its file', async () => {
  await registry.folder.configure(buildConfig({ more: 'more.json' }))
  await waitForEntries(['com.example/a@9.0.0', 'io.more/d@1.0.0'])
  assert.equal(
    (await registry.status()).sources.map(({ name }) => name),
    ['more'],
  )
  await registry.folder.configure(buildConfig({ more: 'own.json' }))
  await waitForEntries(['com.example/a@1.0.0', 'com.example/b@1.0.0', 'io.other/c@1.0.0'])
  assert.is((await fetch(`${registry.adminUrl}/readyz`)).status, 200)
})

test('an unchanged source is not synced again', async () => {
  const before = await registry.source('own')
  await registry.folder.configure(buildConfig(files, { registries: [{ name: 'main', sources: ['own'] }] }))
  await waitForEntries(['com.example/a@1.0.0', 'com.example/b@1.0.0', 'io.other/c@1.0.0'])
  assert.equal(await registry.source('own'), before)
})

test('a changed interval counts from then on', async () => {
  const config = buildConfig(files)
  await registry.folder.configure({
    ...config,
    sources: config.sources.map((source) => ({ ...source, syncPolicy: { interval: '1s' } })),
  })
  const isRunNear = async () => Date.parse((await registry.source('own')).nextRun ?? '') - Date.now() <= 1_000
  await eventually('the next run is near', isRunNear)
})

test('changed origins for pages apply at once', async () => {
  const origin = 'https://pages.example.com'
  await registry.folder.configure(buildConfig(files, { cors: { origins: [origin] } }))
  const readAllowed = async (from: string) =>
    (await registry.get('/servers', { origin: from })).headers.get('access-control-allow-origin')
  await eventually('the page may read', async () => (await readAllowed(origin)) === origin)
  assert.is(await readAllowed('https://other.example.com'), null)
  assert.match((await registry.get('/servers')).headers.get('vary') ?? '', /\bOrigin\b/)
})

test('an invalid configuration is refused with every finding; the previous one stays in force until a valid one comes', async () => {
  const { config: hash } = await registry.status()
  await registry.folder.configure({
    sources: [
      {
        name: 'own',
        file: { path: '../own.json' },
        syncPolicy: { interval: '1ms' },
        filter: { names: { include: ['['] } },
      },
    ],
    registries: [{ name: 'main', sources: ['nowhere'] }],
    auth: { mode: 'anonymous' },
  })
  await eventually('it is refused', async () => (await registry.status()).refused.length > 0)
  const { refused, config } = await registry.status()
  assert.equal(refused.map(({ pointer }) => pointer).sort(), [
    '/registries/0/sources/0',
    '/sources/0/filter/names/include/0',
    '/sources/0/syncPolicy/interval',
  ])
  assert.is(config, hash)
  await waitForEntries(ALL)

  await registry.folder.configure(buildConfig({ own: 'own.json' }))
  await waitForEntries(['com.example/a@1.0.0', 'com.example/b@1.0.0', 'io.other/c@1.0.0'])
  const after = await registry.status()
  assert.equal(after.refused, [])
  assert.is.not(after.config, hash)
})

test('an unknown field is refused and named', async () => {
  await registry.folder.configure({ ...buildConfig({ own: 'own.json' }), colour: 'blue' })
  await eventually('it is refused', async () => (await registry.status()).refused.length > 0)
  const { refused } = await registry.status()
  const listPointers = (message: string) =>
    refused
      .filter((finding) => finding.message === message)
      .map(({ pointer }) => pointer)
      .sort()
  assert.equal(listPointers('unknown field'), ['/colour'])
  await waitForEntries(ALL)
})

test('a long configuration is read in a thread, and the first hundred findings are reported', async () => {
  const fields = Array.from({ length: 5_000 }, (_, index) => [`x${index}`, 1] as const)
  await registry.folder.configure({ ...buildConfig({ own: 'own.json' }), ...Object.fromEntries(fields) })
  await eventually('it is refused', async () => (await registry.status()).refused.length > 0)
  assert.is((await registry.status()).refused.length, 100)
  await waitForEntries(ALL)
})

test.run()
