/** Tests a cache of many holders: only the holder of most makes room. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { networkHolder } from '../../../dataplane/server/network-of.ts'
import { FairCache, type Holder } from '../../../dataplane/storage/fair-cache.ts'

let now = 0
test.before.each(() => {
  now = 1_000_000
})
const open = (most: number, more: object = {}) => new FairCache<string>({ most, now: () => now, ...more })
const TTL = { ttlMs: 60_000 }

/** Adds this many entries of a holder; returns their names. */
function fill(cache: FairCache<string>, holder: Holder, count: number, size = 100): string[] {
  const names = Array.from({ length: count }, (_, index) => `${holder.join('/')} ${index} ${now}`)
  for (const name of names) {
    now++
    cache.set(name, name, { ...TTL, size, holder })
  }
  return names
}
const listCached = (cache: FairCache<string>, names: readonly string[]) =>
  names.filter((name) => cache.get(name) !== undefined)

test('a holder that adds endlessly evicts its own entries, the least recently used first', () => {
  const cache = open(10_000)
  const bob = fill(cache, ['bob'], 3)
  const first = fill(cache, ['alice'], 50)
  assert.is(cache.get(first[0] as string), first[0])
  const then = fill(cache, ['alice'], 1_000)
  assert.equal(listCached(cache, bob), bob)
  assert.equal(listCached(cache, first), [])
  assert.equal(listCached(cache, then), then.slice(-97))
  assert.is(cache.held, 10_000)
})

test('a late holder gets as much as the others, from the one that has most', () => {
  const cache = open(10_000)
  const alice = fill(cache, ['alice'], 80)
  const bob = fill(cache, ['bob'], 20)
  const carol = fill(cache, ['carol'], 15)
  assert.equal(listCached(cache, carol), carol)
  assert.equal(listCached(cache, bob), bob)
  assert.is(listCached(cache, alice).length, 65)
  // The shares are even: no holder has much more than another.
  for (const name of ['alice', 'bob', 'carol']) fill(cache, [name], 200)
  for (const name of ['alice', 'bob', 'carol']) {
    const bytes = cache.heldBy([name])
    assert.ok(bytes > 2_500 && bytes < 4_500, `${name}: ${bytes}`)
  }
})

test('among holders of little, the one that was inactive longest is evicted first', () => {
  const cache = open(100_000, { even: 1_000 })
  const people = Array.from({ length: 500 }, (_, index) => fill(cache, [`p${index}`], 2))
  assert.equal(listCached(cache, people[0] as string[]), people[0])
  fill(cache, ['late'], 5)
  assert.equal(listCached(cache, people[0] as string[]).length, 2)
  assert.equal(listCached(cache, people[1] as string[]).length, 0)
  assert.equal(listCached(cache, people.at(-1) as string[]).length, 2)
})

test('an IPv6 /64, /56 and /48 count together, and their neighbours lose nothing', () => {
  const cache = open(10_000)
  const v4 = fill(cache, networkHolder('192.0.2.1'), 5)
  const neighbour = fill(cache, networkHolder('2001:db8:0:100::1'), 5)
  const nearer = fill(cache, networkHolder('2001:db8:0:2::1'), 5)
  const flood = fill(cache, networkHolder('2001:db8:0:1::1'), 500)
  for (const names of [v4, neighbour, nearer]) assert.equal(listCached(cache, names), names)
  assert.is(listCached(cache, flood).length, 85)
  // All of a /56, and all of a /48: the others lose nothing.
  for (let net = 3; net < 256; net++) fill(cache, networkHolder(`2001:db8:0:${net.toString(16)}::1`), 4)
  for (const names of [v4, neighbour]) assert.equal(listCached(cache, names), names)
  const other = fill(cache, networkHolder('2001:db8:1::1'), 5)
  for (let net = 2; net < 256; net++) fill(cache, networkHolder(`2001:db8:0:${net.toString(16)}00::1`), 4)
  for (const names of [v4, other]) assert.equal(listCached(cache, names), names)
})

test('the cache says when room has to come from other holders', () => {
  const cache = open(1_000)
  assert.is(cache.leaver(['bob'], 100), undefined)
  const [first] = fill(cache, ['alice'], 10)
  assert.equal(cache.leaver(['bob'], 100), { key: first, addedAt: now - 9, isHeldByMore: true })
  assert.is(cache.leaver(['alice'], 100)?.isHeldByMore, false)
  const even = open(1_000)
  for (let index = 0; index < 10; index++) fill(even, [`n${index}`], 1)
  assert.is(even.leaver(['late'], 100)?.isHeldByMore, false)
})

test('expired entries are gone, and make room before anything else', () => {
  const cache = open(1_000)
  fill(cache, ['alice'], 5)
  now += 60_001
  const bob = fill(cache, ['bob'], 10)
  assert.equal(listCached(cache, bob), bob)
  assert.is(cache.size, 10)
  now += 60_001
  assert.equal([...cache.entries()], [])
  assert.equal(listCached(cache, bob), [])
  assert.equal([cache.size, cache.held, cache.heldBy(['bob'])], [0, 0, 0])
})

test('holders count with their own size as long as they have an entry', () => {
  const cache = open(10_000, { holderSize: 100 })
  const [name = ''] = fill(cache, networkHolder('2001:db8::1'), 1)
  assert.is(cache.held, 400)
  assert.is(cache.needed(networkHolder('2001:db8:0:1::1'), 100), 200)
  assert.is(cache.needed(networkHolder('192.0.2.1'), 100), 200)
  cache.delete(name)
  assert.is(cache.held, 0)
  for (let net = 0; net < 500; net++) fill(cache, [`n${net}`], 1)
  assert.ok(cache.held <= 10_000)
  assert.is(cache.size, 50)
})

test('an entry stays with its holder unless another is given; a too large one is not kept', () => {
  const cache = open(1_000)
  cache.set('a', 'one', { ...TTL, size: 100, holder: ['alice'] })
  cache.set('a', 'two', { ...TTL, size: 200 })
  assert.equal([cache.get('a'), cache.heldBy(['alice']), cache.holderOf('a')], ['two', 200, ['alice']])
  cache.set('a', 'three', { ...TTL, size: 100, holder: ['bob'] })
  assert.equal([cache.heldBy(['alice']), cache.heldBy(['bob']), cache.leftOf('a')], [0, 100, 60_000])
  cache.set('b', 'large', { ...TTL, size: 1_001 })
  assert.equal([cache.get('a'), cache.get('b')], ['three', undefined])
})

test('it stays within its limit with many holders', () => {
  const cache = open(1_000_000, { even: 1 })
  for (let index = 0; index < 100_000; index++)
    cache.set(`e${index}`, '', { ...TTL, size: 1 + (index % 97), holder: [`h${index % 20_011}`] })
  assert.ok(cache.held <= 1_000_000)
})

test.run()
