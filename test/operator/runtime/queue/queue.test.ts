import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { KeyedQueue } from '../../../../operator/runtime/queue/queue.ts'

const quick = { first: 1, longest: 4 }

test('a key waits once however often it is added', async () => {
  const queue = new KeyedQueue(quick)
  queue.add('a')
  queue.add('a')
  queue.add('b')
  assert.is(queue.depth, 2)
  assert.is(await queue.take(), 'a')
  assert.is(await queue.take(), 'b')
  assert.is(queue.depth, 0)
})

test('a key being worked on is handed out again only after it is done', async () => {
  const queue = new KeyedQueue(quick)
  queue.add('a')
  assert.is(await queue.take(), 'a')
  queue.add('a')
  let second: string | undefined
  const taken = queue.take().then((key) => {
    second = key
  })
  await Promise.resolve()
  assert.is(second, undefined)
  assert.is(queue.handled, 0)
  queue.done('a')
  await taken
  assert.is(second, 'a')
  assert.is(queue.handled, 1)
})

test('additions of a key before its worker reads again are settled', async () => {
  const queue = new KeyedQueue(quick)
  queue.add('a')
  await queue.take()
  queue.add('a')
  queue.seen('a')
  queue.done('a')
  assert.is(queue.depth, 0)
  queue.add('a')
  await queue.take()
  queue.seen('a')
  queue.add('a')
  queue.done('a')
  assert.is(queue.depth, 1, 'the next one is due')
})

test('a worker that reads only own children settles only own additions', async () => {
  const queue = new KeyedQueue(quick)
  for (const [added, isSeen, depth] of [
    [[], true, 0],
    [[true, true], true, 0],
    [[true, false], false, 1],
    [[false, true], false, 1],
  ] as const) {
    queue.add('a')
    await queue.take()
    for (const isOwn of added) queue.add('a', isOwn)
    assert.is(queue.ownSeen('a'), isSeen)
    queue.done('a')
    assert.is(queue.depth, depth)
  }
})

test('a waiting worker gets a later key, and each key goes to one worker', async () => {
  const queue = new KeyedQueue(quick)
  const takers = [queue.take(), queue.take()]
  queue.add('a')
  queue.add('b')
  assert.equal((await Promise.all(takers)).sort(), ['a', 'b'])
})

test('a retry comes back after a wait that grows until forget', async () => {
  const queue = new KeyedQueue(quick)
  for (let failures = 1; failures <= 3; failures++) {
    queue.retry('a')
    assert.is(queue.failures('a'), failures)
    assert.is(await queue.take(), 'a')
    queue.done('a')
  }
  queue.forget('a')
  assert.is(queue.failures('a'), 0)
})

test('an add overtakes a retry that is due later, and the key comes once', async () => {
  const queue = new KeyedQueue({ first: 60_000, longest: 60_000 })
  queue.retry('a')
  assert.is(queue.delayed, 1)
  queue.add('a')
  assert.is(queue.delayed, 0)
  assert.is(await queue.take(), 'a')
  queue.close()
})

test('of two times for one key the earlier counts', async () => {
  const queue = new KeyedQueue(quick)
  queue.addAfter('a', 60_000)
  queue.addAfter('a', 1)
  queue.addAfter('a', 60_000)
  assert.is(await queue.take(), 'a')
  queue.close()
})

test('close releases every waiting worker and accepts nothing more', async () => {
  const queue = new KeyedQueue(quick)
  const taker = queue.take()
  queue.close()
  assert.is(await taker, undefined)
  queue.add('a')
  assert.is(await queue.take(), undefined)
})

test('no key is lost and none is worked on twice at once under many workers', async () => {
  const queue = new KeyedQueue(quick)
  const active = new Set<string>()
  const versions = new Map<string, number>()
  const seen = new Map<string, number>()
  const worker = async () => {
    for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
      assert.not(active.has(key), `${key} is worked on twice`)
      active.add(key)
      const version = versions.get(key) ?? 0
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 2))
      seen.set(key, version)
      active.delete(key)
      queue.done(key)
    }
  }
  const workers = Array.from({ length: 4 }, worker)
  for (let change = 0; change < 2000; change++) {
    const key = `k${change % 17}`
    versions.set(key, change)
    queue.add(key)
    if (change % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
  }
  while (queue.depth > 0 || queue.working > 0) await new Promise((resolve) => setTimeout(resolve, 2))
  assert.equal([...seen].sort(), [...versions].sort())
  queue.close()
  await Promise.all(workers)
})

test.run()
