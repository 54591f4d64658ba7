import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Debounce } from '../../../../operator/runtime/queue/debounce.ts'
import { eventually } from '../../../cluster/support/operator-process.ts'

const NEVER = 60_000

function startDebounce(times: { quiet: number; longest: number }) {
  const released: string[] = []
  return { released, debounce: new Debounce((key) => released.push(key), times) }
}

test('keys are released together once no object has come for a while', async () => {
  const quiet = 100
  let last = 0
  const released: [key: string, after: number][] = []
  const debounce = new Debounce((key) => released.push([key, performance.now() - last]), { quiet, longest: NEVER })
  const addEvent = () => {
    last = performance.now()
    debounce.arrived()
  }
  addEvent()
  debounce.hold('a')
  debounce.hold('b')
  for (let count = 0; count < 10; count++) {
    await delay(20)
    addEvent()
  }
  await eventually(() => released.length === 2, 'they are let go')
  assert.equal(
    released.map(([key]) => key),
    ['a', 'b'],
  )
  for (const [key, after] of released) assert.ok(after >= quiet, `${key} went ${after} ms after an object had come`)
})

test('a key is released at once if no object has come', async () => {
  const { debounce, released } = startDebounce({ quiet: NEVER, longest: NEVER })
  debounce.hold('a')
  await eventually(() => released.length === 1, 'it is let go')
})

test('no key waits longer than the longest time, however many objects come, and also if it is held again', async () => {
  const { debounce, released } = startDebounce({ quiet: NEVER, longest: 200 })
  debounce.arrived()
  debounce.hold('a')
  await eventually(() => {
    debounce.hold('a')
    debounce.arrived()
    return released.length > 0
  }, 'it is let go')
  assert.equal(released, ['a'])
  await eventually(() => released.length === 2, 'and what was held after that too')
})

test('a closed debounce releases nothing', async () => {
  const { debounce, released } = startDebounce({ quiet: 20, longest: 20 })
  debounce.arrived()
  debounce.hold('a')
  debounce.close()
  await delay(100)
  assert.equal(released, [])
})

test.run()
