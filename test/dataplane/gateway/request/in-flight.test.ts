import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { InFlight, type InFlightCall } from '../../../../dataplane/gateway/request/in-flight.ts'
import { Budget, type Share } from '../../../../dataplane/server/budget.ts'

class Flight implements InFlightCall {
  readonly session = undefined
  readonly share: Share | undefined
  readonly id: string
  deadline = Number.POSITIVE_INFINITY
  heartbeatAt = Number.POSITIVE_INFINITY
  index = -1
  readonly actions: string[] = []
  readonly onTimeOut: () => void

  constructor(id: string, onTimeOut = () => {}, share?: Share) {
    this.id = id
    this.share = share
    this.onTimeOut = onTimeOut
  }

  timeOut(): void {
    this.actions.push('time out')
    this.onTimeOut()
  }

  readonly context = {} as never
  checkedAt = 0
  tokenEnded(): void {}

  heartbeat(): void {
    this.actions.push('sign')
  }

  cancel(): void {}
}

const rethrow = (error: unknown) => {
  throw error
}

test('calls end in any order, each once', () => {
  const all = new InFlight(rethrow)
  const calls = ['a', 'b', 'c', 'd'].map((id) => new Flight(id))
  const [a, b, c, d] = calls as [Flight, Flight, Flight, Flight]
  for (const call of calls) all.add(call)
  all.add(a)
  assert.is(all.count, 4)
  for (const call of [b, d, a]) {
    assert.is(all.delete(call), true)
    assert.is(all.delete(call), false)
  }
  assert.is(all.count, 1)
  all.add(b)
  assert.is(all.delete(c), true)
  assert.is(all.delete(b), true)
  assert.is(all.count, 0)
})

test('each call that is due is timed out, and none twice or too early', () => {
  const all = new InFlight(rethrow)
  const [late, other, signing, waiting] = [new Flight('late'), new Flight('other'), new Flight('s'), new Flight('w')]
  const first = new Flight('first', () => {
    all.delete(first)
    all.delete(other)
  })
  for (const call of [first, other, late, signing, waiting]) all.add(call)
  for (const call of [first, other, late]) call.deadline = 0
  signing.heartbeatAt = 0
  all.checkDeadlines()
  assert.equal(first.actions, ['time out'])
  assert.equal(other.actions, [])
  assert.equal(late.actions, ['time out'])
  assert.equal(signing.actions, ['sign'])
  assert.equal(waiting.actions, [])
  for (const call of [late, signing, waiting]) all.delete(call)
  all.checkDeadlines()
})

test('a failure in one call does not affect the timeouts of others', () => {
  const faults: unknown[] = []
  const all = new InFlight((error) => faults.push(error))
  const failing = new Flight('failing', () => {
    throw new TypeError('no such thing')
  })
  const late = new Flight('late')
  for (const call of [failing, late]) {
    all.add(call)
    call.deadline = 0
  }
  all.checkDeadlines()
  assert.equal(late.actions, ['time out'])
  assert.is(String(faults[0]), 'TypeError: no such thing')
})

test('running calls are counted for their caller, each once', () => {
  const share = new Budget({ total: 9, share: 9, reserve: 0 }).shareOf('a')
  const inFlight = new InFlight(() => {})
  const [one, two] = [new Flight('1', () => {}, share), new Flight('2', () => {}, share)]
  inFlight.add(one)
  inFlight.add(one)
  inFlight.add(two)
  assert.is(share.calls, 2)
  inFlight.delete(one)
  inFlight.delete(one)
  assert.is(share.calls, 1)
  inFlight.delete(two)
  assert.is(share.calls, 0)
})

test.run()
