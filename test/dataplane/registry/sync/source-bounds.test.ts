/** Tests the bounds of one source (`limits.sourceBytes`, entries, pages): beyond them it fails and keeps its last entries. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createBudget } from '../../../../dataplane/registry/sources/format/budget.ts'
import type { SourceError } from '../../../../dataplane/registry/sources/format/source-error.ts'
import { eventually } from '../../../support/eventually.ts'
import { json, serveList, startUpstream, type Upstream, type UpstreamEntry } from '../../../support/network/upstream.ts'
import { labels, registryFile, server, type TestRegistry } from '../../../support/registry/registry.ts'
import { endRegistry, startRegistryWith } from '../../../support/registry/source-registry.ts'

const MOST = 4096
const rest = { limits: { sourceBytes: MOST } }

let upstream: Upstream
let registry: TestRegistry | undefined
let entries: UpstreamEntry[]
test.before.each(async () => {
  entries = [buildEntry('a')]
  upstream = await startUpstream(serveList(() => entries))
})
test.after.each(async () => {
  await registry?.close()
  registry = undefined
  await upstream.close()
})
test.after(endRegistry)

const buildServer = (name: string, length = 0) => server(`com.example/${name}`, '1.0.0', { title: 'x'.repeat(length) })
/** Returns an entry, with a time of change if `day` is given. */
const buildEntry = (name: string, length = 0, day?: number): UpstreamEntry => ({
  server: buildServer(name, length),
  ...(day !== undefined && { updatedAt: `2026-01-0${day}T00:00:00.000Z` }),
})

const listLabels = async () => labels(await (registry as TestRegistry).list('/servers')).join()
const waitForEntries = (wanted: string) => eventually(wanted, async () => (await listLabels()) === wanted)
async function expectFailure(code: string, message: RegExp, expected = 'com.example/a@1.0.0'): Promise<void> {
  const source = () => (registry as TestRegistry).source('own')
  await eventually(code, async () => (await source()).error?.code === code)
  assert.match((await source()).error?.message ?? '', message)
  assert.is(await listLabels(), expected, 'the earlier entries stay')
}
const TOO_LARGE = /more than 4096 bytes.*limits\.sourceBytes/

test('a file that grows over the limit is refused', async () => {
  const files = { 'own.json': registryFile([buildServer('a')]) }
  registry = await startRegistryWith({ file: { path: '../own.json' } }, { files, rest })
  await waitForEntries('com.example/a@1.0.0')
  await registry.folder.write('own.json', registryFile([buildServer('a'), buildServer('b', MOST)]))
  await expectFailure('too_large', TOO_LARGE)
})

test('a download from a URL has a limit, with or without Content-Length', async () => {
  let text = registryFile([buildServer('a')])
  upstream.answer = (_url, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write(text.slice(0, 100))
    response.end(text.slice(100))
  }
  registry = await startRegistryWith({ file: { url: `${upstream.url}/x` } }, { rest })
  await waitForEntries('com.example/a@1.0.0')
  text = registryFile([buildServer('a'), buildServer('b', MOST)])
  await expectFailure('too_large', TOO_LARGE)
})

test('pages of an API have a limit together, although none is too large by itself', async () => {
  registry = await startRegistryWith({ api: { endpoint: upstream.url } }, { rest })
  await waitForEntries('com.example/a@1.0.0')
  entries = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => buildEntry(name, 1000))
  await expectFailure('too_large', TOO_LARGE)
})

test('changes from an API count beside the existing entries of the source', async () => {
  // The request overlaps with the last answer by `b` alone.
  entries = [buildEntry('a', 2500, 1), buildEntry('b', 0, 2)]
  registry = await startRegistryWith({ api: { endpoint: upstream.url } }, { rest })
  await waitForEntries('com.example/a@1.0.0,com.example/b@1.0.0')
  entries = [...entries, buildEntry('c', 2500, 3)]
  await expectFailure('too_large', TOO_LARGE, 'com.example/a@1.0.0,com.example/b@1.0.0')
})

test('endless pages, and huge cursors, are refused', async () => {
  registry = await startRegistryWith({ api: { endpoint: upstream.url } })
  await waitForEntries('com.example/a@1.0.0')
  let pages = 0
  upstream.answer = (_url, response) => json(response, { servers: [], metadata: { nextCursor: `${++pages}` } })
  await expectFailure('endless', /more than 100 pages with nothing on them/)
  upstream.answer = (_url, response) =>
    json(response, { servers: [buildEntry('b')], metadata: { nextCursor: 'x'.repeat(5000) } })
  await expectFailure('wrong_shape', /nextCursor: has more than 4096 characters/)
})

test('the number of entries has a limit, too', () => {
  const budget = createBudget(MOST, { bytes: 0, entries: 499_999 })
  budget.addEntry()
  try {
    budget.addEntry()
    assert.unreachable()
  } catch (error) {
    assert.is((error as SourceError).code, 'too_large')
    assert.match((error as Error).message, 'more than 500000 entries')
  }
})

test.run()
