import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { KeptParts } from '../../../dataplane/identity/kept-parts.ts'

test('a part is made once for all who use it at a time, and closed when the last one has given it back', async () => {
  const events: string[] = []
  const parts = new KeptParts<{ close(): Promise<void> }>()
  let made = 0
  const take = () =>
    parts.take('a', () => {
      const name = `part ${++made}`
      events.push(`${name} is made`)
      return { close: async () => void events.push(`${name} is closed`) }
    })
  const first = take()
  assert.is(take(), first)
  await parts.giveBack('a')
  assert.equal(events, ['part 1 is made'])
  await parts.giveBack('a')
  assert.equal(events, ['part 1 is made', 'part 1 is closed'])
  assert.is.not(take(), first)
  await parts.giveBack('none')
  await parts.giveBack('a')
  assert.equal(events.slice(2), ['part 2 is made', 'part 2 is closed'])
})

test.run()
