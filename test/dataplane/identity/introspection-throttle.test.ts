/** Tests how many introspection requests one address, and all addresses together, can cause. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { IntrospectionThrottle } from '../../../dataplane/identity/introspection.ts'
import type { VerifiedToken } from '../../../dataplane/identity/token-cache.ts'
import type { PublicError } from '../../../dataplane/server/errors.ts'

/** Introspects this many tokens of an address at once; the requests end with `letGo`, and no token is active. */
function createThrottle() {
  const throttle = new IntrospectionThrottle()
  const { promise: isOver, resolve: letGo } = Promise.withResolvers<VerifiedToken | undefined>()
  let startedCount = 0
  const ask = (address: string, count: number) =>
    Array.from({ length: count }, (_, index) =>
      throttle
        .introspect(`${address} ${index}`, address, () => {
          startedCount++
          return isOver
        })
        .then(
          (verified) => (verified === undefined ? 'refused' : 'fine'),
          ({ code }: PublicError) => code,
        ),
    )
  return { ask, letGo: () => letGo(undefined), countStarted: () => startedCount }
}

const count = (outcomes: readonly string[], outcome: string) => outcomes.filter((one) => one === outcome).length

test('an address has a bounded number of open requests, and another address gets its turn', async () => {
  const { ask, letGo, countStarted } = createThrottle()
  const open = new Set<Promise<string>>()
  const many = ask('203.0.113.7', 300)
  for (const one of many) {
    open.add(one)
    one.then(
      () => open.delete(one),
      () => {},
    )
  }
  const other = ask('203.0.113.8', 1)
  await new Promise(setImmediate)
  assert.is(countStarted(), 8)
  assert.ok(open.size <= 65, `${open.size} of 300 wait`)
  letGo()
  assert.equal(await Promise.all(other), ['refused'])
  assert.is(count(await Promise.all(many), 'rate_limited') > 230, true)
})

test('if too many wait in all, the next one must retry later', async () => {
  const { ask, letGo } = createThrottle()
  const all = Array.from({ length: 60 }, (_, index) => ask(`203.0.113.${index}`, 20)).flat()
  await new Promise(setImmediate)
  letGo()
  const outcomes = await Promise.all(all)
  assert.is(count(outcomes, 'unavailable'), 1200 - 8 - 1000)
  assert.is(count(outcomes, 'refused'), 1008)
})

test('a /48 has as much as four addresses, and leaves others their turn', async () => {
  const { ask, letGo, countStarted } = createThrottle()
  const all = Array.from({ length: 256 }, (_, net) => ask(`2001:db8:0:${net.toString(16)}::1`, 5)).flat()
  const near = Array.from({ length: 4 }, (_, net) => ask(`2001:db8:1:${net.toString(16)}::1`, 100)).flat()
  await new Promise(setImmediate)
  assert.is(countStarted(), 8)
  letGo()
  assert.ok(count(await Promise.all(all), 'refused') <= 128, 'one /56')
  assert.ok(count(await Promise.all(near), 'refused') <= 128, 'another /56')
})

test('if too many wait, networks with few requests still get a place and go first', async () => {
  const throttle = new IntrospectionThrottle()
  const { promise: isOver, resolve: letGo } = Promise.withResolvers<VerifiedToken | undefined>()
  const started: string[] = []
  const ask = (address: string, name: string) =>
    throttle.introspect(name, address, () => {
      started.push(name)
      return isOver
    })
  const many = Array.from({ length: 20 }, (_, net) =>
    Array.from({ length: 60 }, (_, index) => ask(`203.0.113.${net}`, `${net} ${index}`)),
  ).flat()
  const outcomes = Promise.allSettled(many)
  const quiet = ask('198.51.100.1', 'quiet')
  await new Promise(setImmediate)
  assert.is(started.length, 8)
  letGo(undefined)
  assert.is(await quiet, undefined)
  // Every other address has few requests until its ninth.
  assert.ok(started.indexOf('quiet') <= 20 * 8, String(started.indexOf('quiet')))
  assert.ok((await outcomes).some(({ status }) => status === 'rejected'))
})

test.run()
