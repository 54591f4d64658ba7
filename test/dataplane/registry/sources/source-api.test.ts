import { execFileSync } from 'node:child_process'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createKeptClones } from '../../../../dataplane/registry/sources/format/kept-clones.ts'
import { pollApi } from '../../../../dataplane/registry/sources/http/poll-api.ts'
import { eventually } from '../../../support/eventually.ts'
import { json, serveList, startUpstream, type Upstream, type UpstreamEntry } from '../../../support/network/upstream.ts'
import {
  labels,
  official,
  registryFile,
  server,
  startRegistry,
  type TestRegistry,
} from '../../../support/registry/registry.ts'
import { endRegistry, startOwnRegistry, startRegistryWith } from '../../../support/registry/source-registry.ts'

let upstream: Upstream
let registry: TestRegistry | undefined
let entries: UpstreamEntry[]

test.before.each(async () => {
  entries = ['a', 'b', 'c', 'd', 'e'].map((name, index) => ({
    server: server(`com.example/${name}`),
    updatedAt: `2026-01-01T00:00:0${index}.000Z`,
  }))
  upstream = await startUpstream(serveList(() => entries))
})
test.after.each(async () => {
  await registry?.close()
  registry = undefined
  await upstream.close()
})
test.after(endRegistry)

const start = (rest: object = {}, options: Parameters<typeof startRegistryWith>[1] = {}) =>
  startRegistryWith({ api: { endpoint: `${upstream.url}/`, ...rest } }, options)
const names = async (query = '') => labels(await (registry as TestRegistry).list(`/servers${query}`))
const waitForEntries = (wanted: string) =>
  eventually(
    wanted,
    async () => (await names()).map((label) => label.replace(/^com.example\/(.*)@.*/, '$1')).join('') === wanted,
  )
/** Returns the requests for lists of servers. */
const lists = () => upstream.requests.filter(({ url }) => url.pathname.endsWith('/servers'))
const waitForState = (state: string) =>
  eventually(state, async () => (await (registry as TestRegistry).source('own')).state === state)

test('all pages are read, then only changes; deletions are applied', async () => {
  registry = await start()
  await waitForEntries('abcde')
  assert.equal(
    lists()
      .slice(0, 3)
      .map(({ url }) => url.searchParams.get('cursor')),
    [null, '2', '4'],
  )

  entries = entries.map((one) =>
    one.server.name === 'com.example/b' ? { ...one, status: 'deleted', updatedAt: '2026-02-01T00:00:00.000Z' } : one,
  )
  entries.push({ server: server('com.example/f'), updatedAt: '2026-02-01T00:00:01.000Z' })
  await waitForEntries('acdef')
  const changes = upstream.requests.filter(({ url }) => url.searchParams.has('updated_since'))
  assert.ok(changes.length > 0)
  for (const { url } of changes) assert.is(url.searchParams.get('include_deleted'), 'true')

  const { servers } = await registry.list('/servers?include_deleted=true&search=example%2Fb')
  assert.equal(
    servers.map((one) => official(one).status),
    ['deleted'],
  )
})

test('an unchanged upstream costs one request and no write', async () => {
  registry = await start()
  await waitForEntries('abcde')
  const etag = (await registry.get('/servers')).headers.get('etag')
  const database = new DatabaseSync(join(registry.folder.stateDirectory, 'catalog.sqlite'), { readOnly: true })
  const commits = () => database.prepare('pragma data_version').get()?.['data_version']
  // The next poll reads the overlap.
  const first = upstream.requests.length
  await eventually('two polls', () => upstream.requests.length >= first + 2)
  await waitForState('ok')
  const [before, written] = [upstream.requests.length, commits()]
  await eventually('some polls', () => upstream.requests.length >= before + 3)
  await waitForState('ok')
  assert.is(commits(), written)
  database.close()
  assert.is((await registry.get('/servers')).headers.get('etag'), etag)
  // The second pass reads the overlap; from the third on nothing is new.
  assert.ok(registry.log.lines.filter(({ msg }) => msg === 'synced').length <= 2)
})

test('left-out entries stay reported until they change', async () => {
  entries.push({ server: server('no-name'), updatedAt: '2026-01-01T00:00:05.000Z' })
  entries.push({ server: server('com.example/f'), updatedAt: '2026-01-02T00:00:00.000Z' })
  registry = await start()
  await waitForEntries('abcdef')
  await waitForState('ok')
  assert.is((await registry.source('own')).leftOut, 1)
  entries.push({ server: server('com.example/g'), updatedAt: '2026-02-01T00:00:01.000Z' })
  await waitForEntries('abcdefg')
  await waitForState('ok')
  assert.is((await registry.source('own')).leftOut, 1)
})

test('a name that differs only in case from one of an earlier page or pass is reported and served', async () => {
  const addTwin = (letter: string, day: number) =>
    entries.push({ server: server(`com.example/${letter}`), updatedAt: `2026-01-0${day}T00:00:00.000Z` })
  addTwin('A', 2)
  registry = await start()
  await waitForEntries('Aabcde')
  await waitForState('ok')
  const listNames = async () =>
    (await (registry as TestRegistry).source('own')).problems.map(({ message }) => message.replace(/ differs.*/, ''))
  assert.equal(await listNames(), ['com.example/A'])
  addTwin('B', 3)
  await waitForEntries('ABabcde')
  await waitForState('ok')
  assert.equal(await listNames(), ['com.example/A', 'com.example/B'])
  assert.is((await registry.source('own')).leftOut, 0)
})

test('an upstream without times is read completely, and vanished entries are removed', async () => {
  entries = entries.map(({ server }) => ({ server }))
  registry = await start()
  await waitForEntries('abcde')
  entries = entries.slice(2)
  await waitForEntries('cde')
  assert.ok(upstream.requests.every(({ url }) => !url.searchParams.has('updated_since')))
})

test('after 429 the pass waits for Retry-After and continues where it was', async () => {
  const answer = upstream.answer
  let refused = 0
  upstream.answer = (url, response, request) => {
    if (url.searchParams.get('cursor') === '2' && refused++ === 0)
      response.writeHead(429, { 'retry-after': '1' }).end('slow down')
    else answer(url, response, request)
  }
  registry = await start()
  await waitForEntries('abcde')
  const seconds = upstream.requests.filter(({ url }) => url.searchParams.get('cursor') === '2')
  assert.ok((seconds[1]?.at ?? 0) - (seconds[0]?.at ?? 0) >= 990)
  // A pass's writes are visible before it ends.
  await waitForState('ok')
})

test('a long Retry-After puts the next sync off', async () => {
  upstream.answer = (_url, response) => response.writeHead(503, { 'retry-after': '600' }).end()
  registry = await start()
  await waitForState('failed')
  const { error, nextRun } = await registry.source('own')
  assert.is(error?.code, 'upstream_failed')
  assert.ok(Date.parse(nextRun ?? '') - Date.now() > 300_000)
})

test('a failure in the middle changes nothing', async () => {
  registry = await start()
  await waitForEntries('abcde')
  const answer = upstream.answer
  entries = entries.slice(0, 3)
  upstream.answer = (url, response, request) =>
    url.searchParams.has('cursor') ? void response.writeHead(404).end() : answer(url, response, request)
  // After other settings everything is read again.
  await registry.folder.configure({
    sources: [{ name: 'own', api: { endpoint: upstream.url, timeout: '5s' }, syncPolicy: { interval: '1s' } }],
    registries: [{ name: 'main', sources: ['own'] }],
    auth: { mode: 'anonymous' },
  })
  await waitForState('failed')
  assert.is((await registry.source('own')).error?.code, 'refused')
  assert.is((await names()).length, 5)
  upstream.answer = answer
  await waitForEntries('abc')
})

for (const { name, answer, code } of [
  {
    name: 'a cursor that comes again',
    answer: (_url, response) => json(response, { servers: [], metadata: { nextCursor: 'again' } }),
    code: 'endless',
  },
  { name: 'what is no list', answer: (_url, response) => json(response, { items: [] }), code: 'wrong_shape' },
  { name: 'what is no JSON', answer: (_url, response) => void response.end('<html>'), code: 'not_json' },
  { name: 'a 403', answer: (_url, response) => void response.writeHead(403).end(), code: 'forbidden' },
  {
    name: 'a 403 with a body without end',
    answer: (_url, response) => {
      const piece = Buffer.alloc(64 * 1024)
      const writeMore = () => {
        while (response.write(piece));
        response.once('drain', writeMore)
      }
      response.writeHead(403)
      writeMore()
    },
    code: 'forbidden',
  },
  {
    name: 'a redirect to nowhere',
    answer: (_url, response) => void response.writeHead(302, { location: 'ftp://127.0.0.1/' }).end(),
    code: 'refused',
  },
] satisfies { name: string; answer: Upstream['answer']; code: string }[])
  test(`${name} fails the pass`, async () => {
    upstream.answer = answer
    registry = await start()
    await waitForState('failed')
    assert.is((await registry.source('own')).error?.code, code)
  })

test('headers come from a file that is read again each time, and are not sent to another host', async () => {
  const other = await startUpstream((_url, response) => json(response, { servers: [], metadata: {} }))
  registry = await start(
    { headersFile: '../headers' },
    { files: { headers: '# for the upstream\nAuthorization: Bearer one\nX-Team: red\n' } },
  )
  await waitForEntries('abcde')
  assert.is(upstream.requests[0]?.headers.authorization, 'Bearer one')
  assert.is(upstream.requests[0]?.headers['x-team'], 'red')
  await registry.folder.write('headers', 'Authorization: Bearer two\n')
  await eventually('the other token', () => upstream.requests.at(-1)?.headers.authorization === 'Bearer two')

  upstream.answer = (url, response) => void response.writeHead(307, { location: `${other.url}${url.pathname}` }).end()
  await eventually('the redirect was followed', () => other.requests.length > 0)
  assert.is(other.requests[0]?.headers.authorization, undefined)
  await other.close()
})

/** Runs one pass over the upstream after the cursor; undefined if nothing has changed. */
async function pass(cursor?: object) {
  await using parts = new AsyncDisposableStack()
  const content = await (
    await pollApi(
      { kind: 'api', endpoint: upstream.url, timeoutMs: 10_000, publicOnly: false },
      {
        source: 'own',
        cursor: cursor && JSON.stringify(cursor),
        holdsSkills: false,
        maxBytes: 2 ** 30,
        held: async () => ({ bytes: 0, entries: 0 }),
        stateDirectory: tmpdir(),
        clones: createKeptClones(join(tmpdir(), 'none')),
        signal: new AbortController().signal,
        parts,
      },
    )
  )?.()
  if (content === undefined || !('batches' in content)) return undefined
  const found: string[] = []
  for await (const { versions } of content.batches) found.push(...versions.map(({ name }) => name.slice(-1)))
  return { complete: content.complete, found: found.join(''), cursor: JSON.parse(content.cursor()) }
}

test('a complete list and a list of changes are distinguished, even with the same answer', async () => {
  entries = entries.slice(0, 2)
  entries[1] = { ...(entries[1] as UpstreamEntry), updatedAt: '2026-01-02T00:00:00.000Z' }
  const first = await pass()
  assert.is(first?.found, 'ab')
  const second = await pass(first?.cursor)
  assert.equal([second?.complete, second?.found], [false, 'b'])
  assert.is(await pass(second?.cursor), undefined)
  entries = entries.slice(1)
  const third = await pass({ ...second?.cursor, fullAt: 1 })
  assert.equal([third?.complete, third?.found], [true, 'b'])
})

test('a clock that was ahead does not delay a complete pass', async () => {
  const first = await pass()
  const second = await pass({ ...first?.cursor, fullAt: Date.now() + 1e9 })
  assert.is(second?.complete, true)
  assert.ok(second?.cursor.fullAt <= Date.now())
})

test('a time in the future hides no change, and changes during paging are not missed', async () => {
  entries[4] = { ...(entries[4] as UpstreamEntry), updatedAt: '2999-01-01T00:00:00.000Z' }
  const answer = upstream.answer
  upstream.answer = (url, response, request) => {
    // The first page has been read; now both it and the last one change.
    if (url.searchParams.get('cursor') === '2') {
      const timeIn = (ms: number) => new Date(Date.now() + ms).toISOString()
      entries[0] = { server: server('com.example/a', '2.0.0'), updatedAt: timeIn(20) }
      entries[3] = { server: server('com.example/d', '2.0.0'), updatedAt: timeIn(120_000) }
    }
    answer(url, response, request)
  }
  const first = await pass()
  assert.is(first?.cursor.servers.since, '2026-01-01T00:00:02.000Z')
  upstream.answer = answer
  const second = await pass(first?.cursor)
  assert.is(second?.complete, false)
  assert.match(second?.found ?? '', /a.*d/)
})

for (const [name, body, code] of [
  ['none of whose entries is usable', { servers: [{ id: 1 }, { id: 2 }], metadata: {} }, 'no_usable_entry'],
  [
    'whose cursor is no text',
    { servers: [{ server: server('com.example/a') }], metadata: { nextCursor: 2 } },
    'wrong_shape',
  ],
] as const)
  test(`a list ${name} removes no entry`, async () => {
    entries = entries.map(({ server }) => ({ server }))
    registry = await start()
    await waitForEntries('abcde')
    upstream.answer = (url, response) =>
      url.pathname.endsWith('/servers') ? json(response, body) : void response.writeHead(404).end()
    await waitForState('failed')
    assert.is((await registry.source('own')).error?.code, code)
    await waitForEntries('abcde')
  })

test('a headers file that is a pipe blocks nothing', async () => {
  registry = await start()
  await waitForEntries('abcde')
  execFileSync('mkfifo', [join(registry.folder.stateDirectory, 'pipe')])
  await registry.folder.configure({
    sources: [
      {
        name: 'own',
        api: { endpoint: upstream.url, headersFile: join(registry.folder.stateDirectory, 'pipe') },
        syncPolicy: { interval: '1s' },
      },
    ],
    registries: [{ name: 'main', sources: ['own'] }],
    auth: { mode: 'anonymous' },
  })
  await waitForState('failed')
  assert.equal((await registry.source('own')).error, {
    code: 'file_unreadable',
    message: 'a file of headers is no file',
  })
})

test('an upstream that hangs times out and delays no other source', async () => {
  upstream.answer = () => undefined
  const api = { endpoint: upstream.url, timeout: '300ms' }
  registry = await startRegistryWith(
    { file: { path: '../good.json' } },
    { files: { 'good.json': registryFile([server('com.example/good')]) } },
  )
  await registry.folder.configure({
    sources: [
      ...Array.from({ length: 8 }, (_, index) => ({ name: `stuck${index}`, api, syncPolicy: { interval: '1s' } })),
      { name: 'own', file: { path: '../good.json' }, syncPolicy: { interval: '1s' } },
    ],
    registries: [{ name: 'main', sources: ['own'] }],
    auth: { mode: 'anonymous' },
  })
  const codes = async () => (await registry?.status())?.sources.map(({ error }) => error?.code)
  await eventually('it is reported', async () => (await codes())?.includes('timed_out') === true)
  await waitForEntries('good')
})

test('a Portico registry is a source of another one, with times, statuses and deletions', async () => {
  const first = await startRegistry({ up: registryFile([server('com.example/x'), server('com.example/y')]) })
  registry = await startRegistryWith({ api: { endpoint: `${first.url}/registry/main` } })
  await waitForEntries('xy')
  assert.is(
    official(await registry.one('/servers/com.example%2Fx/versions/latest')).publishedAt,
    official(await first.one('/servers/com.example%2Fx/versions/latest')).publishedAt,
  )
  await first.folder.write('up.json', registryFile([server('com.example/y'), server('com.example/z')]))
  await waitForEntries('yz')
  await first.close()
})

test('skills of a Portico registry are synced: added, changed and removed', async () => {
  const skill = (name: string, version = '1.0.0') => ({ namespace: 'com.example', name, version, description: name })
  const servers = [server('com.example/x')]
  const first = await startRegistry({ up: registryFile(servers, [skill('writing'), skill('drawing')]) })
  registry = await startRegistryWith({ api: { endpoint: `${first.url}/registry/main` } })
  const skills = async () => {
    const answer = await (registry as TestRegistry).get('/x/portico/skills')
    const list = ((await answer.json()) as { skills: { skill: { name: string; version: string } }[] }).skills
    return list.map(({ skill: { name, version } }) => `${name}@${version}`).join()
  }
  const showsSkills = (wanted: string) => eventually(wanted, async () => (await skills()) === wanted)
  await showsSkills('drawing@1.0.0,writing@1.0.0')
  assert.equal(await names(), ['com.example/x@1.0.0'])
  await eventually('they are counted', async () => (await (registry as TestRegistry).source('own')).skills === 2)

  await first.folder.write('up.json', registryFile(servers, [skill('writing'), skill('writing', '1.1.0')]))
  await showsSkills('writing@1.0.0,writing@1.1.0')
  assert.equal(await names(), ['com.example/x@1.0.0'])
  await first.close()
})

test('a proxy’s page instead of the skills removes none, not even in a complete pass', async () => {
  const answer = upstream.answer
  let skills = (response: ServerResponse) =>
    json(response, { skills: [{ skill: { namespace: 'com.example', name: 'writing', version: '1.0.0' } }] })
  upstream.answer = (url, response, request) =>
    url.pathname.endsWith('/skills') ? skills(response) : answer(url, response, request)
  registry = await start({}, { interval: '1h' })
  await waitForEntries('abcde')
  await eventually('they are counted', async () => (await (registry as TestRegistry).source('own')).skills === 1)
  const readSource = () =>
    fetch(`${(registry as TestRegistry).url}/v1/sources/own/sync?wait=true`, { method: 'POST' }).then(
      (answer) => answer.json() as Promise<{ state: string; skills: number }>,
    )
  skills = (response) => void response.writeHead(403).end('<html>')
  const { state, skills: left } = await readSource()
  assert.equal([state, left], ['failed', 1])
  // An upstream that knows the path reports that it has no such list.
  skills = (response) => void response.writeHead(404).end()
  const after = await readSource()
  assert.equal([after.state, after.skills], ['ok', 0])
})

test('skills are not requested at each poll from an upstream without skills', async () => {
  registry = await start()
  await waitForEntries('abcde')
  const looks = lists().length
  await eventually('some polls', () => lists().length >= looks + 3)
  const requests = upstream.requests.filter(({ url }) => url.pathname.endsWith('/skills'))
  assert.is(requests.length, 1)
})

test('an upstream of several pages without times is read completely each time, and written if it differs', async () => {
  entries = entries.map(({ server }) => ({ server }))
  registry = await start()
  await waitForEntries('abcde')
  await waitForState('ok')
  const database = new DatabaseSync(join(registry.folder.stateDirectory, 'catalog.sqlite'), { readOnly: true })
  const commits = () => database.prepare('pragma data_version').get()?.['data_version']
  const [before, looks] = [commits(), lists().length]
  await eventually('two complete polls', () => lists().length >= looks + 6)
  assert.is(commits(), before)
  database.close()
})

test('a shutdown ends a waiting pass', async () => {
  upstream.answer = () => undefined
  const stopped = await startOwnRegistry({ api: { endpoint: upstream.url, timeout: '5m' } })
  await eventually('it sends a request', () => upstream.requests.length > 0)
  const startedAt = performance.now()
  await stopped.stop()
  assert.ok(performance.now() - startedAt < 60_000)
  await stopped.folder.remove()
})

test('an upstream that refuses updated_since is listed as a whole', async () => {
  for (const status of [400, 422]) {
    const list = serveList(() => entries)
    upstream.answer = (url, response, request) =>
      url.searchParams.has('updated_since') ? response.writeHead(status).end('{}') : list(url, response, request)
    registry = await start()
    await waitForEntries('abcde')
    entries.pop()
    entries.push({ server: server('com.example/z'), updatedAt: '2026-01-01T00:00:09.000Z' })
    await waitForEntries('abcdz')
    // The source may already be polled again.
    await waitForState('ok')
    await registry.close()
    registry = undefined
    entries.pop()
    entries.push({ server: server('com.example/e'), updatedAt: '2026-01-01T00:00:04.000Z' })
  }
})

test('requests ask for gzip, and answers in every encoding are decoded', async () => {
  const encoders = { gzip: gzipSync, br: brotliCompressSync, zstd: zstdCompressSync, deflate: deflateSync }
  const encodings = Object.keys(encoders) as (keyof typeof encoders)[]
  upstream.answer = (url, response) => {
    if (!url.pathname.endsWith('/servers')) return response.writeHead(404).end()
    const at = Number(url.searchParams.get('cursor') ?? 0)
    const encoding = encodings[at] as keyof typeof encoders
    // Registries before 2025-10 spell it differently.
    const spelling = at === 1 ? 'next_cursor' : 'nextCursor'
    const metadata = at + 1 < encodings.length ? { [spelling]: String(at + 1) } : {}
    const body = encoders[encoding](
      JSON.stringify({ servers: [{ server: server(`com.example/${encoding}`) }], metadata }),
    )
    return response.writeHead(200, { 'content-encoding': encoding }).end(body)
  }
  registry = await start()
  await eventually('all pages', async () => (await names()).length === encodings.length)
  assert.is(lists()[0]?.headers['accept-encoding'], 'gzip')
})

test('a compressed page has a size limit once decoded, and an undecodable one is reported', async () => {
  let body = gzipSync(Buffer.concat([Buffer.from('{"servers":['), Buffer.alloc(120_000_000, ' '), Buffer.from(']}')]))
  upstream.answer = (_url, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(body)
  registry = await start()
  await waitForState('failed')
  assert.is((await registry.source('own')).error?.code, 'too_large')
  await registry.close()
  body = Buffer.from('{"servers":[]}')
  registry = await start()
  await eventually('it is reported', async () =>
    ((await (registry as TestRegistry).source('own')).error?.message ?? '').includes('Content-Encoding'),
  )
})

test.run()
