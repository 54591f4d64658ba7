import { rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { mountVolume } from '../../../support/mounted-volume.ts'
import {
  buildConfig,
  labels,
  official,
  type RegistryFolder,
  registryFile,
  registryFolder,
  runRegistry,
  server,
  startRegistry,
  type TestRegistry,
} from '../../../support/registry/registry.ts'
import { endRegistry, registryOver } from '../../../support/registry/source-registry.ts'

test.after(endRegistry)

const a1 = server('com.example/a', '1.0.0')
const a2 = server('com.example/a', '2.0.0')
const b1 = server('com.example/b', '1.0.0')

/** Runs a test with a registry and closes that afterwards, whatever happens. */
function withRegistry(
  name: string,
  start: () => Promise<TestRegistry>,
  body: (registry: TestRegistry) => Promise<void>,
) {
  test(name, async () => {
    const registry = await start()
    try {
      await body(registry)
    } finally {
      await registry.close()
    }
  })
}

async function inFolder(prepare: (folder: RegistryFolder) => Promise<void>): Promise<TestRegistry> {
  const folder = await registryFolder()
  await prepare(folder)
  const registry = await runRegistry(folder)
  await registry.ready()
  return registry
}

const waitForEntries = (registry: TestRegistry, wanted: readonly string[], query = '') =>
  eventually(
    `the registry shows ${wanted.join(', ') || 'nothing'}`,
    async () => labels(await registry.list(`/servers?${query}`)).join() === wanted.join(),
  )

withRegistry(
  'an edited file is served at once: added, changed, removed',
  () => registryOver({ own: registryFile([a1]) }),
  async (registry) => {
    await registry.folder.write('own.json', registryFile([a1, a2, b1]))
    await waitForEntries(registry, ['com.example/a@1.0.0', 'com.example/a@2.0.0', 'com.example/b@1.0.0'])
    assert.is(official(await registry.one('/servers/com.example%2Fa/versions/1.0.0')).isLatest, false)

    const before = official(await registry.one('/servers/com.example%2Fb/versions/1.0.0'))
    await registry.folder.write('own.json', registryFile([a1, { ...b1, description: 'New text' }]))
    await waitForEntries(registry, ['com.example/a@1.0.0', 'com.example/b@1.0.0'])
    const changed = await registry.one('/servers/com.example%2Fb/versions/latest')
    assert.is(changed.server.description, 'New text')
    assert.is(official(changed).publishedAt, before.publishedAt)
    assert.is(official(changed).statusChangedAt, before.statusChangedAt)
    assert.ok(official(changed).updatedAt > before.updatedAt)
    assert.is((await registry.one('/servers/com.example%2Fa/versions/latest')).server.version, '1.0.0')
  },
)

withRegistry(
  'updated_since shows changes and removals',
  () => registryOver({ own: registryFile([a1, a2, b1]) }),
  async (registry) => {
    const since = official(await registry.one('/servers/com.example%2Fa/versions/1.0.0')).updatedAt
    await registry.folder.write('own.json', registryFile([a1, { ...b1, title: 'B' }]))
    await waitForEntries(registry, ['com.example/a@2.0.0', 'com.example/b@1.0.0'], `updated_since=${since}`)
    const changes = await registry.list(`/servers?updated_since=${since}`)
    assert.equal(
      changes.servers.map((entry) => official(entry).status),
      ['deleted', 'active'],
    )

    const gone = '/servers/com.example%2Fa/versions/2.0.0'
    assert.is((await registry.get(gone)).status, 404)
    assert.is(official(await registry.one(`${gone}?include_deleted=true`)).status, 'deleted')

    const { publishedAt } = official(await registry.one(`${gone}?include_deleted=true`))
    await registry.folder.write('own.json', registryFile([a1, a2, b1]))
    await waitForEntries(registry, ['com.example/a@1.0.0', 'com.example/a@2.0.0', 'com.example/b@1.0.0'])
    const back = official(await registry.one(gone))
    assert.equal([back.status, back.isLatest, back.publishedAt], ['active', true, publishedAt])
  },
)

withRegistry(
  'a name that leaves the first source comes from the next one',
  () => registryOver({ first: registryFile([a1, b1]), second: registryFile([a2]) }),
  async (registry) => {
    await waitForEntries(registry, ['com.example/a@1.0.0', 'com.example/b@1.0.0'])
    await registry.folder.write('first.json', registryFile([b1]))
    await waitForEntries(registry, ['com.example/a@2.0.0', 'com.example/b@1.0.0'])
    assert.equal(labels(await registry.list('/servers/com.example%2Fa/versions?include_deleted=true')), [
      'com.example/a@2.0.0',
    ])
    await registry.folder.write('first.json', registryFile([a1, b1]))
    await waitForEntries(registry, ['com.example/a@1.0.0', 'com.example/b@1.0.0'])
  },
)

withRegistry(
  'invalid entries are left out and reported; the rest is served',
  () => registryOver({ own: registryFile([a1, { name: 'bad' }, b1]) }),
  async (registry) => {
    await waitForEntries(registry, ['com.example/a@1.0.0', 'com.example/b@1.0.0'])
    // The status follows a moment after the entries.
    await eventually('its sync has ended', async () => (await registry.source('own')).state === 'ok')
    const { state, servers, leftOut, problems, error } = await registry.source('own')
    assert.equal({ state, servers, leftOut, error }, { state: 'ok', servers: 2, leftOut: 1, error: null })
    assert.is(problems[0]?.pointer, '/data/servers/1')
  },
)

const broken: [string, string, string][] = [
  ['no JSON', registryFile([b1]).slice(0, -4), 'not_json'],
  ['no registry file', '{"hello": []}', 'wrong_shape'],
  ['without one usable entry', registryFile([{ name: 'bad' }]), 'no_usable_entry'],
]
for (const [what, text, code] of broken)
  withRegistry(
    `a file that is broken as a whole keeps the last good state: ${what}`,
    () => registryOver({ own: registryFile([a1]), other: registryFile([]) }),
    async (registry) => {
      const good = await registry.source('own')
      await registry.folder.write('own.json', text)
      await eventually('the source has failed', async () => (await registry.source('own')).state === 'failed')
      const failed = await registry.source('own')
      assert.is(failed.error?.code, code)
      assert.is(failed.lastSuccess, good.lastSuccess)
      assert.ok(failed.attempts >= 1)
      assert.is(failed.servers, 1)
      await eventually('the other source is synced', async () => (await registry.source('other')).state === 'ok')
      await waitForEntries(registry, ['com.example/a@1.0.0'])

      await registry.folder.write('own.json', registryFile([a1, b1]))
      await waitForEntries(registry, ['com.example/a@1.0.0', 'com.example/b@1.0.0'])
      await eventually('it is reported', async () => {
        const { state, attempts, error } = await registry.source('own')
        return state === 'ok' && attempts === 0 && error === null
      })
    },
  )

withRegistry(
  'with a missing file the registry is ready, and serves the file as soon as it is there',
  () => inFolder((folder) => folder.configure(buildConfig({ own: 'own.json' }))),
  async (registry) => {
    assert.is((await registry.source('own')).error?.code, 'file_missing')
    await waitForEntries(registry, [])
    await registry.folder.write('own.json', registryFile([a1]))
    await waitForEntries(registry, ['com.example/a@1.0.0'])
    await rm(join(registry.folder.directory, 'own.json'))
    await eventually('the loss is reported', async () => (await registry.source('own')).state === 'failed')
    await waitForEntries(registry, ['com.example/a@1.0.0'])
  },
)

test('a file in a ConfigMap volume is followed through its links', async () => {
  const volume = await mountVolume({ 'registry.json': registryFile([a1]) })
  const registry = await inFolder(async (folder) => {
    await symlink(volume.directory, join(folder.directory, 'volume'))
    await folder.configure(buildConfig({ own: 'volume/registry.json' }))
  })
  try {
    await waitForEntries(registry, ['com.example/a@1.0.0'])
    await volume.update({ 'registry.json': registryFile([a1, b1]) })
    await waitForEntries(registry, ['com.example/a@1.0.0', 'com.example/b@1.0.0'])
  } finally {
    await registry.close()
    await volume.remove()
  }
})

withRegistry(
  'the file is checked at each interval, with a count of attempts and the time of the next',
  () =>
    inFolder((folder) =>
      folder.configure({
        ...buildConfig({ own: 'own.json' }),
        sources: [{ name: 'own', file: { path: '../own.json' }, syncPolicy: { interval: '1s' } }],
      }),
    ),
  async (registry) => {
    let seen = await registry.source('own')
    const failedThrice = async () => {
      seen = await registry.source('own')
      return seen.attempts >= 3 && seen.state === 'failed' && seen.nextRun !== null
    }
    await eventually('several attempts', failedThrice)
    const { lastAttempt, nextRun, lastSuccess } = seen
    assert.is(lastSuccess, null)
    assert.ok(Date.parse(nextRun ?? '') - Date.parse(lastAttempt ?? '') >= 1000)
    const lines = registry.log.lines.filter(({ code }) => code === 'file_missing')
    assert.is(lines.length, 1, 'one line for a lasting failure')
  },
)

withRegistry(
  'the same bytes again write nothing and are not parsed; other bytes with the same entries write none of them',
  () => registryOver({ own: registryFile([a1, { name: 'bad' }]) }),
  async (registry) => {
    const database = new DatabaseSync(join(registry.folder.stateDirectory, 'catalog.sqlite'), { readOnly: true })
    const commits = () => database.prepare('pragma data_version').get()?.['data_version']
    const attempt = async () => (await registry.source('own')).lastAttempt
    const before = { commits: commits(), attempt: await attempt() }
    const etag = (await registry.get('/servers')).headers.get('etag')

    await registry.folder.write('own.json', registryFile([a1, { name: 'bad' }]))
    await eventually('the file was read again', async () => (await attempt()) !== before.attempt)
    await eventually('the sync has ended', async () => (await registry.source('own')).state === 'ok')
    assert.is(commits(), before.commits)
    assert.is((await registry.source('own')).leftOut, 1)
    assert.is(registry.log.lines.filter(({ msg }) => msg === 'synced').length, 1)

    await registry.folder.write('own.json', ` ${registryFile([a1])}`)
    await eventually('the new bytes were read', async () => (await registry.source('own')).leftOut === 0)
    assert.is((await registry.get('/servers')).headers.get('etag'), etag)
    database.close()
  },
)

test('after a restart the last success and the failures in a row are still known', async () => {
  const first = await startRegistry({ own: registryFile([a1]) })
  const { lastSuccess } = await first.source('own')
  await rm(join(first.folder.directory, 'own.json'))
  await eventually('the loss is reported', async () => (await first.source('own')).state === 'failed')
  await first.stop()
  const second = await runRegistry(first.folder)
  try {
    await second.ready()
    const known = await second.source('own')
    assert.is(known.lastSuccess, lastSuccess)
    assert.ok(known.attempts >= 2)
    assert.is(known.servers, 1)
  } finally {
    await second.close()
  }
})

test('after a restart stored entries are served at once, with their times, and not synced again', async () => {
  const first = await startRegistry({ own: registryFile([a1, { name: 'bad' }]) })
  const published = official(await first.one('/servers/com.example%2Fa/versions/latest')).publishedAt
  const etag = (await first.get('/servers')).headers.get('etag')
  await first.stop()

  const second = await runRegistry(first.folder)
  try {
    assert.equal(labels(await second.list('/servers')), ['com.example/a@1.0.0'])
    await second.ready()
    assert.is((await second.source('own')).leftOut, 1)
    assert.is(official(await second.one('/servers/com.example%2Fa/versions/latest')).publishedAt, published)
    assert.is((await second.get('/servers')).headers.get('etag'), etag)
    assert.is(second.log.lines.filter(({ msg }) => msg === 'synced').length, 0)
  } finally {
    await second.close()
  }
})

test.run()
