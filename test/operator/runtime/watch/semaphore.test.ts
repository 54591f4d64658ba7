import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Semaphore } from '../../../../operator/runtime/watch/reflector.ts'

test('no more than so many tasks run at once, the others in their order, whatever fails', async () => {
  const semaphore = new Semaphore(2)
  const started: number[] = []
  let running = 0
  let most = 0
  const ended = Array.from({ length: 7 }, (_, number) =>
    semaphore.run(async () => {
      started.push(number)
      most = Math.max(most, ++running)
      await turn()
      running--
      if (number % 3 === 0) throw new Error(`task ${number}`)
      return number
    }),
  )
  const results = await Promise.allSettled(ended)
  assert.equal(
    results.map((result) => (result.status === 'fulfilled' ? result.value : String(result.reason))),
    ['Error: task 0', 1, 2, 'Error: task 3', 4, 5, 'Error: task 6'],
  )
  assert.equal(started, [0, 1, 2, 3, 4, 5, 6])
  assert.is(most, 2)
})

test('a free place goes to a later task', async () => {
  const semaphore = new Semaphore(1)
  assert.is(await semaphore.run(async () => 'first'), 'first')
  assert.is(await semaphore.run(async () => 'second'), 'second')
})

test.run()
