import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type List, registryFile, server, startRegistry } from '../../../support/registry/registry.ts'

const NAMES = 2_000
const FIRST_PAGE = 100
/** Every other name belongs to one state only, so that a page that mixes two states shows in names and texts. */
const generation = (number: number) =>
  registryFile(
    Array.from({ length: NAMES }, (_, index) =>
      server(`all/n${String(index).padStart(5, '0')}${index % 2 === 0 ? '' : `-${number % 2}`}`, '1.0.0', {
        title: `generation ${number}`,
        description: 'x'.repeat(500),
      }),
    ),
  )

test('a read during a sync sees the state before or after it, and each page shows one state', async () => {
  const registry = await startRegistry({ own: registryFile([server('x/y')]), other: registryFile([server('x/z')]) })
  let last = 0
  const seen: string[] = []
  let done = false
  let during = 0

  const reader = async () => {
    while (!done) {
      const response = await registry.get(`/servers?limit=${FIRST_PAGE}`)
      assert.is(response.status, 200)
      const { servers } = (await response.json()) as List
      const titles = new Set(servers.map((entry) => entry.server.title ?? 'none'))
      assert.is(titles.size, 1, [...titles].join())
      assert.ok(servers.length === FIRST_PAGE || titles.has('none'))
      seen.push(...titles)
    }
  }
  const readers = Array.from({ length: 4 }, reader)

  // A busy machine may miss some of them.
  while (last < 4 || (last < 20 && (during === 0 || !seen.includes(`generation ${last - 1}`)))) {
    await registry.folder.write('own.json', generation(++last))
    await eventually('it is served', async () => {
      const response = await registry.get('/servers?limit=1')
      const { servers } = (await response.json()) as List
      if (servers[0]?.server.title === `generation ${last}`) return true
      if ((await registry.source('own')).state === 'running') during++
      return false
    })
  }
  done = true
  await Promise.all(readers)

  assert.ok(during > 0, 'reads were answered while a sync ran')
  assert.ok(seen.includes(`generation ${last - 1}`))
  await registry.close()
})

test.run()
