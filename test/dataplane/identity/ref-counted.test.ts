import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { RefCounted } from '../../../dataplane/identity/issuers.ts'

test('a resource is made once for all its owners, and closed when the last one releases it', async () => {
  const events: string[] = []
  const resources = new RefCounted<{ close(): Promise<void> }>()
  let createdCount = 0
  const acquire = () =>
    resources.acquire('a', () => {
      const name = `resource ${++createdCount}`
      events.push(`${name} is made`)
      return { close: async () => void events.push(`${name} is closed`) }
    })
  const first = acquire()
  assert.is(acquire(), first)
  await resources.release('a')
  assert.equal(events, ['resource 1 is made'])
  await resources.release('a')
  assert.equal(events, ['resource 1 is made', 'resource 1 is closed'])
  assert.is.not(acquire(), first)
  await resources.release('none')
  await resources.release('a')
  assert.equal(events.slice(2), ['resource 2 is made', 'resource 2 is closed'])
})

test.run()
