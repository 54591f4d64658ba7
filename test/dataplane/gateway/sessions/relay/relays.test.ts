/** Relays answers from one replica to a client at another, whatever happens to the messages between them. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type AnswerSink,
  type RelayReceiver,
  type RelaySender,
  Relays,
} from '../../../../../dataplane/gateway/sessions/relay/relays.ts'
import {
  type BusKind,
  type BusMessage,
  isBusMessage,
  type SessionBus,
} from '../../../../../dataplane/gateway/sessions/store/bus.ts'

const KIB = 1024
const MIB = 1024 * KIB

const fail = (error: unknown): never => {
  throw error
}

/** A client that accepts only as much as the test allows. */
class Client implements AnswerSink {
  readonly got: string[] = []
  bytes = 0
  reads = true
  #next: (() => void) | undefined

  #take(what: string, data: Buffer): boolean {
    this.bytes += data.length
    this.got.push(data.length > 100 ? what : `${what} ${data}`)
    return this.reads
  }

  answer(status: number, body: Buffer): void {
    this.#take(`answer ${status}`, body)
  }

  event(data: Buffer, id?: string): boolean {
    return this.#take(id === undefined ? 'event' : `event ${id}`, data)
  }

  part(data: Buffer): boolean {
    return this.#take('part', data)
  }

  onDrain(next: () => void): void {
    this.#next = next
  }

  drain(): void {
    const next = this.#next
    this.#next = undefined
    next?.()
  }

  heartbeat(): void {}

  end(): void {
    this.got.push('end')
  }

  abort(): void {
    this.got.push('lost')
  }

  unknown(): void {
    this.got.push('unknown')
  }
}

/** Two replicas, `here` with answers and `there` with clients. Their messages wait until the test delivers them. */
class Replicas {
  readonly here = new Relays(fail)
  readonly there = new Relays(fail)
  readonly onItsWay: (readonly [to: string, message: BusMessage])[] = []
  /** All messages sent so far. */
  readonly sent: BusMessage[] = []
  readonly over: boolean[] = []
  readonly #takers = new Map<string, (message: never) => void>()
  readonly hereBus = this.#bus('here')
  readonly thereBus = this.#bus('there')

  constructor() {
    this.here.follow(this.hereBus)
    this.there.follow(this.thereBus)
  }

  #bus(replica: string): SessionBus {
    const notify = (message: BusMessage, to = '') => {
      const arrived = JSON.parse(JSON.stringify(message))
      assert.ok(isBusMessage(arrived))
      this.sent.push(message)
      this.onItsWay.push([to, arrived])
    }
    return {
      replica,
      notify,
      send: async () => true,
      on: (kind: BusKind, take: (message: never) => void) => void this.#takers.set(`${replica} ${kind}`, take),
      close: () => {},
    } as SessionBus
  }

  /** Opens a client at `there` that waits for an answer of `here`. */
  async open(client: AnswerSink): Promise<{ sender: RelaySender; receiver: RelayReceiver }> {
    const receiver = this.there.receive(this.thereBus, 'here', client)
    receiver.ask({ kind: 'ended', session: 's' }, 1)
    await Promise.resolve()
    await Promise.resolve()
    return { sender: this.answer(receiver.name) as RelaySender, receiver }
  }

  answer(relay: string): RelaySender | undefined {
    return this.here.send(this.hereBus, { relay, to: 'there', onOver: (isGone) => void this.over.push(isGone) })
  }

  #deliverOne(): void {
    const [to, message] = this.onItsWay.shift() as readonly [string, BusMessage]
    this.#takers.get(`${to} ${message.kind}`)?.(message as never)
  }

  deliver(): void {
    while (this.onItsWay.length > 0) this.#deliverOne()
  }

  close(): void {
    this.here.close()
    this.there.close()
  }
}

const all: Replicas[] = []
test.after.each(() => {
  for (const replicas of all.splice(0)) replicas.close()
})

async function relayTo(client: Client) {
  const replicas = new Replicas()
  all.push(replicas)
  return { replicas, ...(await replicas.open(client)) }
}

const bytes = (text: string): Buffer => Buffer.from(text)

test('events, parts and the end arrive in their order, and a whole answer with its status', async () => {
  const client = new Client()
  const { replicas, sender } = await relayTo(client)
  sender.event(bytes('1'), 'i1')
  sender.event(bytes('2'))
  sender.part(bytes('{'), 'i2')
  sender.part(bytes('}'), 'i2')
  sender.end()
  replicas.deliver()
  assert.equal(client.got, ['event i1 1', 'event 2', 'part {', 'part }', 'end'])
  assert.equal(replicas.over, [false])

  const other = new Client()
  const { sender: answering } = await replicas.open(other)
  answering.answer(404, bytes('grüße'))
  replicas.deliver()
  assert.equal(other.got, ['answer 404 grüße'])
})

test('an answer without parts ends', async () => {
  const client = new Client()
  const { replicas, sender } = await relayTo(client)
  sender.end()
  replicas.deliver()
  assert.equal([client.got, replicas.over], [['end'], [false]])
})

test('if any message is lost, repeated or late, the client still gets each part once', async () => {
  const faults: readonly [string, (on: Replicas['onItsWay']) => void][] = [
    ['lost', (on) => void on.splice(0)],
    ['twice there', (on) => void on.push(...on)],
    ['late', (on) => void on.reverse()],
  ]
  for (const [fault, happen] of faults)
    for (let at = 0; at < 8; at++) {
      const client = new Client()
      const { replicas, sender, receiver } = await relayTo(client)
      const steps = [
        () => sender.event(bytes('1')),
        () => sender.event(bytes('2')),
        () => replicas.deliver(),
        () => sender.part(bytes('3')),
        () => receiver.poll(),
        () => sender.part(bytes('4')),
        () => replicas.deliver(),
        () => sender.end(),
      ]
      for (const [index, step] of steps.entries()) {
        step()
        if (index === at) happen(replicas.onItsWay)
      }
      // The other replica polls until it has everything.
      for (let poll = 0; poll < 5 && client.got.at(-1) !== 'end'; poll++) {
        replicas.deliver()
        receiver.poll()
      }
      replicas.deliver()
      assert.equal(client.got, ['event 1', 'event 2', 'part 3', 'part 4', 'end'], `${fault} at ${at}`)
    }
})

test('a client that does not read gets one message, and the source is paused until it reads', async () => {
  const client = new Client()
  client.reads = false
  const { replicas, sender, receiver } = await relayTo(client)
  const part = Buffer.alloc(64 * KIB, 'x')
  assert.is(sender.part(part), false)
  let goneOn = 0
  sender.onDrain(() => goneOn++)
  assert.is(sender.part(part), false)
  for (let poll = 0; poll < 10; poll++) {
    replicas.deliver()
    receiver.poll()
  }
  replicas.deliver()
  assert.equal([client.bytes, goneOn], [part.length, 0])
  client.drain()
  replicas.deliver()
  assert.equal([client.bytes, goneOn], [2 * part.length, 0], 'the second is not taken yet')
  client.drain()
  replicas.deliver()
  assert.is(goneOn, 1)
  sender.end()
  replicas.deliver()
  assert.equal(client.got, ['part', 'part', 'end'])
})

test('small parts are sent together', async () => {
  const client = new Client()
  const { replicas, sender } = await relayTo(client)
  for (let event = 0; event < 256; event++) sender.event(bytes(String(event)))
  replicas.deliver()
  assert.is(client.got.length, 256)
  assert.ok(replicas.sent.filter(({ kind }) => kind === 'relayed').length < 5)
})

test('a stream that ends before its last acknowledgement is complete', async () => {
  const client = new Client()
  client.reads = false
  const { replicas, sender } = await relayTo(client)
  sender.part(bytes('1'))
  sender.end()
  replicas.deliver()
  assert.equal([client.got, replicas.over], [['part 1'], []])
  client.drain()
  replicas.deliver()
  assert.equal([client.got, replicas.over], [['part 1', 'end'], [false]])
})

test('a client that does not read learns of a broken answer after everything before it', async () => {
  const client = new Client()
  client.reads = false
  const { replicas, sender, receiver } = await relayTo(client)
  const part = Buffer.alloc(64 * KIB, 'x')
  for (let count = 0; count < 3; count++) sender.part(part)
  replicas.deliver()
  receiver.poll()
  replicas.deliver()
  assert.equal(client.got, ['part'])
  sender.abort()
  for (let poll = 0; poll < 3; poll++) {
    replicas.deliver()
    receiver.poll()
  }
  replicas.deliver()
  assert.equal([client.got, replicas.over], [['part', 'part', 'part', 'lost'], [false]])
})

test('a source that does not pause loses its answer and holds no memory afterwards', async () => {
  const client = new Client()
  const { replicas, sender } = await relayTo(client)
  for (let part = 0; part < 6; part++) sender.part(Buffer.alloc(MIB, 'x'))
  assert.is(sender.part(Buffer.alloc(MIB, 'x')), true, 'it need not wait for anything')
  sender.end()
  replicas.deliver()
  assert.equal(client.got, ['part', 'lost'])
  assert.equal(replicas.over, [false])
})

test('all answers together stay within the limit, and a client that disconnects releases its part', async () => {
  const { replicas } = await relayTo(new Client())
  const clients: Client[] = []
  const open = async (): Promise<{ sender: RelaySender; receiver: RelayReceiver }> => {
    const client = new Client()
    clients.push(client)
    const ends = await replicas.open(client)
    for (let part = 0; part < 3; part++) ends.sender.part(Buffer.alloc(MIB, 'x'))
    return ends
  }
  const opened = await Promise.all(Array.from({ length: 11 }, open))
  opened[0]?.receiver.leave()
  replicas.deliver()
  assert.is(clients.at(-1)?.got.at(-1), 'lost', 'there are 32 MiB')
  assert.ok(clients.slice(1, -1).every(({ got }) => got.length === 3 && !got.includes('lost')))
  assert.equal(replicas.over, [true, false])
})

test('a repeated question is answered once', async () => {
  const client = new Client()
  const { replicas, sender, receiver } = await relayTo(client)
  assert.is(replicas.answer(receiver.name), undefined)
  sender.answer(200, bytes('a'))
  replicas.here.refuse(replicas.hereBus, receiver.name, 'there')
  replicas.deliver()
  assert.is(replicas.answer(receiver.name), undefined)
  assert.equal(client.got, ['answer 200 a'])
})

test('a replica that no longer has the answer says so when it is polled', async () => {
  const client = new Client()
  const { replicas, receiver } = await relayTo(new Client())
  const lost = replicas.there.receive(replicas.thereBus, 'here', client)
  lost.ask({ kind: 'ended', session: 's' }, 1)
  await Promise.resolve()
  await Promise.resolve()
  lost.poll()
  receiver.poll()
  replicas.deliver()
  assert.equal(client.got, ['unknown'])
})

test('a disconnected client gets nothing more, and the source continues', async () => {
  const client = new Client()
  client.reads = false
  const { replicas, sender, receiver } = await relayTo(client)
  sender.part(Buffer.alloc(64 * KIB, 'x'))
  let goneOn = false
  sender.onDrain(() => {
    goneOn = true
  })
  replicas.deliver()
  receiver.leave()
  replicas.deliver()
  assert.ok(goneOn)
  assert.is(sender.part(bytes('2')), true)
  sender.end()
  replicas.deliver()
  assert.equal([client.got, replicas.over], [['part'], [true]])
})

test.run()
