import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Budget, Reservation } from '../../../dataplane/server/budget.ts'
import type { PublicError } from '../../../dataplane/server/errors.ts'

const MIB = 1024 * 1024
const readCode = (take: () => void): string => {
  try {
    take()
    return ''
  } catch (error) {
    return (error as PublicError).code
  }
}
const budget = () => new Budget({ total: 10 * MIB, share: 6 * MIB, reserve: 2 * MIB })

test('a holder has its share, and can use it again after releasing it', () => {
  const share = budget().shareOf('a')
  share.take(5 * MIB)
  assert.is(
    readCode(() => share.take(2 * MIB)),
    'share_exceeded',
  )
  assert.is(
    readCode(() => share.take(7 * MIB)),
    'too_large',
    'what would never fit',
  )
  share.release(5 * MIB)
  share.take(6 * MIB)
})

test('all together stay within the total, and holders of little are served beyond their share', () => {
  const all = budget()
  all.shareOf('a').take(6 * MIB)
  all.shareOf('b').take(4 * MIB)
  assert.is(
    readCode(() => all.shareOf('c').take(2 * MIB)),
    'unavailable',
  )
  all.shareOf('d').take(MIB)
  assert.is(
    readCode(() => all.shareOf('d').take(1)),
    'unavailable',
    'little is one mebibyte',
  )
  all.shareOf('e').take(MIB)
  assert.is(
    readCode(() => all.shareOf('f').take(1)),
    'unavailable',
    'the reserve is used up',
  )
  assert.is(all.held, 12 * MIB)
})

test('a refused request is not counted', () => {
  const all = budget()
  const reservation = new Reservation(all.shareOf('a'))
  assert.ok(reservation.resize(3 * MIB))
  assert.not(reservation.resize(7 * MIB))
  assert.is(all.held, 3 * MIB)
  assert.ok(reservation.resize(MIB))
  reservation.release()
  reservation.release()
  assert.is(all.held, 0)
})

test('holders of nothing are forgotten, others never', () => {
  const all = budget()
  const first = all.shareOf('first')
  first.take(10)
  for (let index = 0; index < 20_000; index++) all.shareOf(`x${index}`)
  assert.is(all.shareOf('first'), first)
  assert.ok(all.size < 10_000, String(all.size))
})

test('an IPv6 /48 has one share for all its addresses', () => {
  const all = budget()
  const shares = Array.from({ length: 8 }, (_, net) => all.shareOfAddress(`2001:db8:0:${(net << 6).toString(16)}::1`))
  assert.is(new Set(shares).size, 8)
  for (const share of shares.slice(0, 6)) share.take(MIB)
  assert.is(
    readCode(() => shares[6]?.take(1)),
    'share_exceeded',
  )
  for (const share of shares) share.addCalls(2)
  assert.equal([shares[0]?.calls, shares[0]?.mostCalls], [2, 16])
  for (const address of ['192.0.2.1', '2001:db8:1::1']) all.shareOfAddress(address).take(MIB)
  assert.is(all.shareOfAddress('2001:db8:1:0:ffff::1'), all.shareOfAddress('2001:db8:1::1'), 'one /64')
  shares[0]?.release(MIB)
  shares[6]?.take(MIB)
  for (const share of shares) share.addCalls(-2)
  assert.is(shares[0]?.mostCalls, 0)
})

test.run()
