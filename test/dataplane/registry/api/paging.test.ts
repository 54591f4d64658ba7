import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { generateServers } from '../../../../bench/registry/generate.ts'
import { eventually } from '../../../support/eventually.ts'
import { labels, registryFile, startRegistry, type TestRegistry } from '../../../support/registry/registry.ts'

const options = { names: 500, versions: 2, bytes: [10, 200] } as const
const first = [...generateServers(options)]
/** Half of its names are also in the first source, in other versions. */
const second = [
  ...first.slice(0, first.length / 2).map((server) => ({ ...server, version: '7.7.7' })),
  ...generateServers({ ...options, names: 100, seed: 2, prefix: 'second' }),
]
const taken = new Set(first.map(({ name }) => name))
const visible = [...first, ...second.filter(({ name }) => !taken.has(name))]
const findLabel = ({ name, version }: { name: string; version: string }) => `${name}@${version}`

let registry: TestRegistry
test.before(async () => {
  registry = await startRegistry({ first: registryFile(first), second: registryFile(second) })
})
test.after(() => registry.close())

async function walk(query: string): Promise<string[]> {
  const found: string[] = []
  for (let cursor: string | undefined; ; ) {
    const list = await registry.list(`/servers?${query}${cursor === undefined ? '' : `&cursor=${cursor}`}`)
    found.push(...labels(list))
    cursor = list.metadata.nextCursor
    if (cursor === undefined) return found
    assert.ok(list.servers.length > 0)
  }
}

for (const limit of [1, 7, 30, 100])
  test(`pages of ${limit} bring everything once, by name`, async () => {
    const found = await walk(`limit=${limit}`)
    assert.is(new Set(found).size, found.length)
    assert.equal(found.toSorted(), visible.map(findLabel).sort())
    const names = found.map((label) => label.split('@')[0] as string)
    assert.equal(names, names.toSorted(byBytes))
  })

for (const term of ['calendar', 'a', 'number 13', 'no such thing at all'])
  test(`pages of a search for “${term}” bring every match once`, async () => {
    const found = await walk(`limit=10&search=${encodeURIComponent(term)}`)
    const wanted = visible.filter(({ name, title, description }) =>
      [name, title, description].some((text) => text.toLowerCase().includes(term)),
    )
    assert.equal(found.toSorted(), wanted.map(findLabel).sort())
  })

test('pages of the latest bring every name once', async () => {
  const found = await walk('limit=33&version=latest')
  assert.equal(found.map((label) => label.split('@')[0]).sort(), [...new Set(visible.map(({ name }) => name))].sort())
})

test('a last page that is full has no cursor', async () => {
  const all = await walk('limit=100&search=number%2013')
  assert.ok(all.length > 1 && all.length <= 100)
  const exact = await registry.list(`/servers?search=number%2013&limit=${all.length}`)
  assert.is(exact.metadata.nextCursor, undefined)
})

test('paging continues at its place when entries come and go', async () => {
  const start = await registry.list('/servers?limit=100')
  const seen = labels(start)
  const changed = first.filter((_, index) => index % 10 !== 0)
  const etag = async () => (await registry.get('/servers?limit=1')).headers.get('etag')
  const before = await etag()
  await registry.folder.write('first.json', registryFile([...changed, { ...first[0], name: 'aaa/new' }]))
  await eventually('the changes are seen', async () => (await etag()) !== before)

  const rest: string[] = []
  for (let cursor = start.metadata.nextCursor; cursor !== undefined; ) {
    const list = await registry.list(`/servers?limit=100&cursor=${cursor}`)
    rest.push(...labels(list))
    cursor = list.metadata.nextCursor
  }
  assert.is(new Set([...seen, ...rest]).size, seen.length + rest.length)
  const stayed = changed.map(findLabel).filter((label) => !seen.includes(label))
  for (const label of stayed) assert.ok(rest.includes(label), label)
})

function byBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other))
}

test.run()
