import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { SourceError } from '../../../../dataplane/registry/sources/format/source-error.ts'
import { findAddress } from '../../../../dataplane/registry/sources/git/poll-git.ts'
import { createHttpGet, readRetryAfter } from '../../../../dataplane/registry/sources/http/http-get.ts'
import { parseHeaders } from '../../../../dataplane/registry/sources/http/poll-api.ts'
import {
  computeRetryWait,
  createScheduler,
  type ScheduledSource,
  type SyncCall,
} from '../../../../dataplane/registry/sync/schedule.ts'
import { createSemaphore } from '../../../../dataplane/registry/sync/semaphore.ts'
import { observeNothing } from '../../../../dataplane/telemetry/observe.ts'
import { eventually } from '../../../support/eventually.ts'
import { recordLog } from '../../../support/kept-log.ts'

const never = new AbortController().signal

test('a limited number of syncs run at a time, in order; a slow one gives up its place', async () => {
  const semaphore = createSemaphore(1, 50)
  const order: string[] = []
  const stuck = Promise.withResolvers<void>()
  const first = semaphore.run(async () => {
    order.push('stuck')
    await stuck.promise
  }, never)
  const others = ['b', 'c'].map((name) => semaphore.run(async () => void order.push(name), never))
  assert.equal(order, [])
  await Promise.all(others)
  assert.equal(order, ['stuck', 'b', 'c'])
  stuck.resolve()
  await first
  await semaphore.run(async () => void order.push('d'), never)
  assert.is(order.length, 4)
})

test('a waiting sync can be aborted', async () => {
  const semaphore = createSemaphore(1, 10_000)
  const stuck = Promise.withResolvers<void>()
  const first = semaphore.run(() => stuck.promise, never)
  const leaving = new AbortController()
  const second = semaphore.run(async () => assert.unreachable(), leaving.signal).catch((error: Error) => error.message)
  leaving.abort(new Error('left'))
  assert.is(await second, 'left')
  stuck.resolve()
  await first
  assert.is(await semaphore.run(async () => 'free again', never), 'free again')
})

test('a sync that is aborted as it gets a place aborts no other one', async () => {
  for (let moment = 0; moment < 12; moment++) {
    const semaphore = createSemaphore(1, 10_000)
    const stuck = Promise.withResolvers<void>()
    const first = semaphore.run(() => stuck.promise, never)
    const leaving = new AbortController()
    const second = semaphore.run(async () => 'came first', leaving.signal).catch(() => 'left')
    const third = semaphore.run(async () => 'ran', never)
    stuck.resolve()
    for (let step = 0; step < moment; step++) await undefined
    leaving.abort(new Error('left'))
    const outcome = await Promise.race([third, new Promise((resolve) => setTimeout(resolve, 10_000, 'hangs'))])
    assert.is(outcome, 'ran', `after ${moment} steps`)
    await Promise.all([first, second])
  }
})

test('waits after failures double up to a bound, with jitter; Retry-After is the least, within reason', () => {
  const wait = (attempts: number, intervalMs: number, random = 0, retryAfterMs?: number) =>
    computeRetryWait({ attempts, intervalMs, retryAfterMs }, random)
  assert.equal(
    [1, 2, 3, 30].map((attempts) => wait(attempts, 30_000)),
    [2_000, 4_000, 8_000, 300_000],
  )
  assert.is(wait(1, 1_000), 1_000)
  assert.is(wait(30, 3_600_000), 3_600_000)
  assert.is(wait(1, 30_000, 1), 2_500)
  assert.is(wait(1, 30_000, 0, 60_000), 60_000)
  assert.is(wait(1, 30_000, 0, 1e12), 3_600_000)
})

test('Retry-After: seconds or a date', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  assert.is(readRetryAfter('120', now), 120_000)
  assert.is(
    computeRetryWait({ attempts: 1, intervalMs: 1_000, retryAfterMs: readRetryAfter('9'.repeat(400), now) }),
    3_600_000,
  )
  assert.is(readRetryAfter('Thu, 01 Jan 2026 00:01:00 GMT', now), 60_000)
  assert.is(readRetryAfter('Wed, 31 Dec 2025 00:00:00 GMT', now), 0)
  for (const odd of [undefined, 'soon', '-1', ['1', '2']]) assert.is(readRetryAfter(odd, now), undefined)
})

test('an invalid line of a headers file is named by its number, never by its text', () => {
  assert.equal(parseHeaders('# c\n\nAuthorization: Bearer a:b\r\nX-A:  1 \n'), {
    authorization: 'Bearer a:b',
    'x-a': '1',
  })
  for (const text of ['secret', ': secret', 'a b: secret', 'X: se\u0000cret']) {
    try {
      parseHeaders(`X-A: 1\n${text}`)
      assert.unreachable()
    } catch (error) {
      assert.instance(error, SourceError)
      assert.match((error as Error).message, 'line 2')
      assert.not.match((error as Error).message, 'cret')
    }
  }
})

test('a source that is restricted to public addresses can’t reach this machine', async () => {
  await using get = createHttpGet({ publicOnly: true, timeoutMs: 1_000, maxBytes: 1_000, signal: never })
  for (const url of ['http://127.0.0.1:1/', 'http://localhost:1/', 'http://10.0.0.1/', 'http://169.254.169.254/']) {
    const code = await get(url, {}, () => {}).then(
      () => 'reached',
      (error: SourceError) => error.code,
    )
    assert.is(code, 'private_address', url)
    assert.is(
      await findAddress(new URL(url), 'public').then(
        () => 'public',
        (error: SourceError) => error.code,
      ),
      'private_address',
    )
  }
})

test('a requested sync is a full pass, with or without waiting; a shutdown ends it', async () => {
  const calls: SyncCall[] = []
  const hold = Promise.withResolvers<void>()
  const scheduler = createScheduler({
    log: recordLog().log,
    observe: observeNothing,
    async sync(_source, call) {
      calls.push(call)
      if (calls.length === 3) {
        call.signal.addEventListener('abort', () => hold.reject(call.signal.reason))
        await hold.promise
      }
      return { changed: false, servers: 1, skills: 0, problems: [] }
    },
  })
  scheduler.apply([{ name: 'own', location: { kind: 'inline', text: '{}' }, intervalMs: 3_600_000, maxBytes: 2 ** 30 }])
  await eventually('the first', () => scheduler.state('own')?.state === 'ok')
  assert.equal(
    calls.map(({ full }) => full),
    [false],
  )
  assert.is(await scheduler.syncNow('own', { wait: true }), true)
  assert.is(calls[1]?.full, true)
  assert.is(await scheduler.syncNow('none'), false)
  assert.is(await scheduler.syncNow('own'), true)
  await eventually('the third', () => calls.length === 3)
  await scheduler.stop()
  assert.is(calls[2]?.signal.aborted, true)
})

test('a source that is changed, or removed and added, is synced only after its running sync has ended', async () => {
  let running = 0
  let most = 0
  const intervals: number[] = []
  const scheduler = createScheduler({
    log: recordLog().log,
    observe: observeNothing,
    async sync(source, { signal }) {
      most = Math.max(most, ++running)
      intervals.push((source as ScheduledSource).intervalMs)
      if (intervals.length < 3) {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        // It has something to delete.
        await delay(100)
      }
      running--
      signal.throwIfAborted()
      return { changed: false, servers: 1, skills: 0, problems: [] }
    },
  })
  const buildSource = (intervalMs: number) =>
    ({ name: 'own', location: { kind: 'inline', text: '{}' }, intervalMs, maxBytes: 2 ** 30 }) as const
  scheduler.apply([buildSource(3_600_000)])
  await eventually('the first', () => intervals.length === 1)
  scheduler.apply([buildSource(3_600_001)])
  await eventually('the second', () => intervals.length === 2)
  scheduler.apply([])
  assert.is(scheduler.state('own'), undefined)
  scheduler.apply([buildSource(3_600_002)])
  await eventually('the third', () => scheduler.state('own')?.state === 'ok')
  await scheduler.stop()
  assert.equal(intervals, [3_600_000, 3_600_001, 3_600_002])
  assert.is(most, 1)
})

test('a sync that is requested as another one ends is run', async () => {
  for (let moment = 0; moment < 30; moment++) {
    let calls = 0
    const first = Promise.withResolvers<void>()
    const scheduler = createScheduler({
      log: recordLog().log,
      observe: observeNothing,
      async sync() {
        if (++calls === 1) await first.promise
        return { changed: false, servers: 1, skills: 0, problems: [] }
      },
    })
    scheduler.apply([
      { name: 'own', location: { kind: 'inline', text: '{}' }, intervalMs: 3_600_000, maxBytes: 2 ** 30 },
    ])
    await eventually('it runs', () => calls === 1)
    first.resolve()
    for (let step = 0; step < moment; step++) await undefined
    await scheduler.syncNow('own', { wait: true })
    await scheduler.stop()
    assert.is(calls, 2, `after ${moment} steps`)
  }
})

test.run()
