import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Flying, InFlight } from '../../../../dataplane/gateway/backends/in-flight.ts'

class Flight implements Flying {
  readonly session = undefined
  readonly id: string
  deadline = Number.POSITIVE_INFINITY
  nextSign = Number.POSITIVE_INFINITY
  place = -1
  readonly told: string[] = []
  readonly onTimeOut: () => void

  constructor(id: string, onTimeOut = () => {}) {
    this.id = id
    this.onTimeOut = onTimeOut
  }

  timeOut(): void {
    this.told.push('time out')
    this.onTimeOut()
  }

  sign(): void {
    this.told.push('sign')
  }

  cancel(): void {}
}

test('calls leave in any order, each once', () => {
  const all = new InFlight()
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

test('each call whose time has come is told, and none that has left because of another', () => {
  const all = new InFlight()
  const [late, other, signing, waiting] = [new Flight('late'), new Flight('other'), new Flight('s'), new Flight('w')]
  const first = new Flight('first', () => {
    all.delete(first)
    all.delete(other)
  })
  for (const call of [first, other, late, signing, waiting]) all.add(call)
  for (const call of [first, other, late]) call.deadline = 0
  signing.nextSign = 0
  all.look()
  assert.equal(first.told, ['time out'])
  assert.equal(other.told, [])
  assert.equal(late.told, ['time out'])
  assert.equal(signing.told, ['sign'])
  assert.equal(waiting.told, [])
  for (const call of [late, signing, waiting]) all.delete(call)
  all.look()
})

test.run()
