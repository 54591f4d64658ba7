/** Answers to clients that came back at other replicas are held until they are whole, within bounds. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { BusMessage, SessionBus } from '../../../../../dataplane/gateway/sessions/store/bus.ts'
import { RemoteSink } from '../../../../../dataplane/gateway/sessions/streams/remote-sink.ts'
import { Budget } from '../../../../../dataplane/server/budget.ts'

const MIB = 1024 * 1024

function sinks(total: number) {
  const told: (BusMessage & { what?: string })[] = []
  const bus = { notify: (message: BusMessage) => told.push(message) } as unknown as SessionBus
  const budget = new Budget({ total, share: total, reserve: 0 })
  const room = budget.shareOf('')
  const make = (follow: string) => new RemoteSink({ bus, follow, to: 'there', room, onOver: () => {} })
  return { told: () => told.map((message) => message.what), make, held: () => budget.held }
}

test('parts are one event at the other replica, and nothing is held behind it', () => {
  const { told, make, held } = sinks(8 * MIB)
  const sink = make('a')
  sink.part(Buffer.alloc(MIB))
  sink.part(Buffer.alloc(MIB))
  assert.is(held(), 2 * MIB)
  sink.end()
  assert.equal(told(), ['event', 'end'])
  assert.is(held(), 0)
})

test('an answer that is too large is lost, and costs nothing from then on', () => {
  const { told, make, held } = sinks(64 * MIB)
  const sink = make('a')
  for (let i = 0; i < 6; i++) sink.part(Buffer.alloc(MIB))
  assert.is(held(), 0)
  sink.end()
  assert.equal(told(), ['lost'])
})

test('all of them together hold no more than there is room for; one that is dropped gives its room back', () => {
  const { told, make, held } = sinks(3 * MIB)
  const [one, two] = [make('a'), make('b')]
  one.part(Buffer.alloc(2 * MIB))
  two.part(Buffer.alloc(2 * MIB))
  assert.is(held(), 2 * MIB)
  one.drop()
  two.part(Buffer.alloc(MIB))
  assert.is(held(), 0, 'what has a gap is no answer')
  two.end()
  const three = make('c')
  three.part(Buffer.alloc(2 * MIB))
  three.abort()
  assert.is(held(), 0)
  assert.equal(told(), ['lost', 'lost'])
})

test.run()
