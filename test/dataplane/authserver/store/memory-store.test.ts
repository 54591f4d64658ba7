/** Tests the store in memory: expired records are gone, and marks of used assertions are not evicted. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import { type Kind, kinds } from '../../../../dataplane/authserver/store/record-store.ts'
import { PublicError } from '../../../../dataplane/server/errors.ts'
import { eventually } from '../../../support/eventually.ts'

const MINUTE_MS = 60_000

test('records of every kind are removed after their lifetime without being read', async () => {
  let now = Date.now()
  const store = createMemoryStore({ now: () => now, purgeMs: 5 })
  const all = Object.keys(kinds) as Kind[]
  for (const kind of all) await store.set(kind, 'a', 'secret', 60)
  await store.revoke('a', 60)
  now += MINUTE_MS - 1000
  for (const kind of all) assert.is(await store.get(kind, 'a'), 'secret', kind)
  assert.is(store.size, all.length + 1)
  now += 2000
  await eventually('it is empty', () => store.size === 0)
  store.close()
})

test('records of used assertions evict neither grants nor each other', async () => {
  let now = Date.now()
  const store = createMemoryStore({ now: () => now, mostBytes: { marks: 5_000, grants: 5_000 } })
  await store.set('grant', 'alice', 'granted', 3600)
  const used: string[] = []
  const refused = await (async () => {
    for (let count = 0; count < 1000; count++)
      try {
        const name = `assertion-${count}`
        assert.ok(await store.add('assertion', name, '1', 60))
        used.push(name)
      } catch (error) {
        return error
      }
  })()
  assert.instance(refused, PublicError)
  assert.is((refused as PublicError).status, 503)
  assert.ok(used.length > 10 && used.length < 30, String(used.length))
  // No used assertion is accepted again.
  for (const name of used) assert.is(await store.add('assertion', name, '1', 60), false)
  assert.is(await store.get('grant', 'alice'), 'granted')
  now += MINUTE_MS + 1
  assert.ok(await store.add('assertion', 'another', '1', 60))
  store.close()
})

test.run()
