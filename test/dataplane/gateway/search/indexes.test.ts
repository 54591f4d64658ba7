/** Tests the memory of tool indexes and the limits of queries. */
import { spawnSync } from 'node:child_process'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { wordQuery } from '../../../../dataplane/gateway/search/tool-index.ts'
import { ToolSearch } from '../../../../dataplane/gateway/search/tool-search.ts'
import { recordLog } from '../../../support/kept-log.ts'

const MIB = 1024 * 1024
const searchWithin = (memoryBytes: number) =>
  new ToolSearch({ memoryBytes, log: recordLog().log, stateDirectory: '.portico', onFault: assert.unreachable })
const buildList = (tools: readonly object[]) => Buffer.from(JSON.stringify({ tools }))
const nameIn = (text: string) => JSON.parse(text).name

test('a query becomes a limited number of quoted words, in time linear in its length', () => {
  assert.is(wordQuery('get "the" weather*'), '"get" OR "the" OR "weather"')
  assert.is(wordQuery('getHTTPServer'), '"getHTTPServer" OR "get" OR "HTTP" OR "Server"')
  assert.is(wordQuery(' \0()^"'), undefined)
  assert.is(wordQuery(Array.from({ length: 500 }, (_, word) => `w${word}`).join(' '))?.split(' OR ').length, 32)
  const started = performance.now()
  for (const text of ['a'.repeat(1e6), 'A'.repeat(1e6), '"'.repeat(1e6), 'aB'.repeat(5e5), '\u0301'.repeat(1e6)])
    wordQuery(text)
  assert.ok(performance.now() - started < 10_000)
})

test('hundreds of lists stay within the memory limit and can all be searched', async () => {
  const search = searchWithin(16 * 16 * MIB)
  const lists = Array.from({ length: 36 }, (_, list) =>
    buildList(
      Array.from({ length: 100 }, (_, tool) => ({
        name: `tool${tool}_of_list${list}`,
        description: `${'filler '.repeat(300)} needle${tool}`,
      })),
    ),
  )
  const found = await Promise.all(lists.map((list) => search.find(list, 'needle42', 1)))
  assert.equal(
    found.map((texts) => texts.map(nameIn)),
    lists.map((_, list) => [`tool42_of_list${list}`]),
  )
  const { indexes, indexBytes } = search.status
  assert.ok(indexes < 36 && indexBytes <= 16 * MIB, `${indexes} with ${indexBytes}`)
  search.close()
})

test('a list larger than the limit can be searched, and equal lists are indexed once', async () => {
  const search = searchWithin(16 * MIB)
  const tools = Array.from({ length: 2000 }, (_, tool) => ({ name: `t${tool}`, description: 'word '.repeat(700) }))
  const text = buildList(tools)
  const copies = Array.from({ length: 20 }, () => Buffer.from(text))
  const found = await Promise.all(copies.map((copy) => search.find(copy, 't1711', 3)))
  for (const texts of found) assert.equal(texts.map(nameIn), ['t1711'])
  assert.is(search.status.indexes, 1)
  search.close()
})

test('tools of any shape are indexed', async () => {
  const search = searchWithin(512 * MIB)
  const odd: readonly unknown[] = [
    { name: 7, description: [], inputSchema: null },
    { name: 'a', title: {}, inputSchema: { properties: 'x' }, annotations: 'y' },
    { name: 'b', inputSchema: { properties: { __proto__: null, needle: 1 } }, annotations: { title: 'Titled' } },
    { name: 'c', description: `\uD800 ${'x'.repeat(100_000)}` },
  ]
  const list = buildList(odd as object[])
  assert.equal((await search.find(list, 'needle', 8)).map(nameIn), ['b'])
  assert.equal((await search.find(list, 'titled', 8)).map(nameIn), ['b'])
  search.close()
})

test('a gateway without tool search loads nothing of SQLite', () => {
  const script = `
    await import('./dataplane/gateway/index.ts')
    console.log(process.moduleLoadList.filter((name) => /sqlite/.test(name)).join())`
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  assert.is(stdout.trim(), '')
})

test.run()
