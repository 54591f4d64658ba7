import { createHook } from 'node:async_hooks'
import { mock } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { giveBackAfterWork, keepTicksFast } from '../../cli/memory.ts'

test('memory is given back once after much work, and not after a little', () => {
  mock.timers.enable({ apis: ['setInterval'] })
  let work = { done: 0, isIdle: true }
  let collections = 0
  const worker = {
    get work() {
      return work
    },
  }
  const timer = giveBackAfterWork(worker, () => collections++)
  const pass = (done: number, isIdle: boolean) => {
    work = { done, isIdle }
    mock.timers.tick(5_000)
    return collections
  }
  try {
    assert.is(pass(0, true), 0)
    assert.is(pass(150, true), 0)
    assert.is(pass(150, true), 0, 'a little')
    assert.is(pass(900, false), 0)
    assert.is(pass(900, false), 0, 'more is due')
    assert.is(pass(901, true), 0, 'it has only just ended')
    assert.is(pass(901, true), 1)
    assert.is(pass(901, true), 1, 'once')
    assert.is(pass(1_100, true), 1)
    assert.is(pass(1_100, true), 1, 'a little since then')
    assert.is(pass(1_101, true), 1)
    assert.is(pass(1_101, true), 2, 'much since then')
  } finally {
    clearInterval(timer)
    mock.timers.reset()
  }
})

test('one object of nextTick outlives full collections, and with it the hidden class of all of them', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const ticks: WeakRef<object>[] = []
  const hook = createHook({
    init(_id, type, _trigger, resource) {
      if (type === 'TickObject') ticks.push(new WeakRef(resource))
    },
  }).enable()
  keepTicksFast()
  process.nextTick(() => undefined)
  hook.disable()
  // A WeakRef holds what it refers to until the end of its turn.
  for (let round = 0; round < 3; round++) {
    await setTimeout(10)
    collect()
  }
  assert.equal(
    ticks.map((tick) => tick.deref() !== undefined),
    [true, false],
  )
})

test.run()
