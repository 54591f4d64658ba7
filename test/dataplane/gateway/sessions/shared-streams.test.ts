/** Checks how much of a backend's memory share the answers between replicas take, at both ends. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Backend } from '../../../../dataplane/gateway/backends/backend/backend.ts'
import type { TakeAnswer } from '../../../../dataplane/gateway/backends/session/late-answers.ts'
import { Relays } from '../../../../dataplane/gateway/sessions/relay/relays.ts'
import { type Session, STREAM } from '../../../../dataplane/gateway/sessions/session.ts'
import { SharedStreams } from '../../../../dataplane/gateway/sessions/shared-streams.ts'
import type { BusKind, BusMessage, SessionBus } from '../../../../dataplane/gateway/sessions/store/bus.ts'
import { Budget, type Share } from '../../../../dataplane/server/budget.ts'

const KIB = 1024

const fail = (error: unknown): never => {
  throw error
}

/** A replica with a session's stream (`here`), and one whose call waits for an answer on it (`there`). */
class Pair {
  /** The backend's memory share at each replica. */
  readonly shares: Readonly<Record<'here' | 'there', Share>>
  readonly taken: (Buffer | undefined)[] = []
  readonly #onItsWay: (readonly [to: string, message: BusMessage])[] = []
  readonly #takers = new Map<string, (message: never) => void>()
  readonly #relays: Relays[] = []
  #answer: TakeAnswer | undefined
  readonly leave: () => void

  constructor(mostHere: number, mostThere: number) {
    const createShare = (share: number) => new Budget({ total: 1e9, share, reserve: 0 }).shareOf('b')
    this.shares = { here: createShare(mostHere), there: createShare(mostThere) }
    this.#streams('here')
    const { share, streams, session } = this.#streams('there')
    const backend = { name: 'b', share } as Backend
    this.leave = streams.await(session, backend, '1', (answer) => this.taken.push(answer)) as () => void
  }

  #streams(replica: 'here' | 'there') {
    const share = this.shares[replica]
    const relays = new Relays(fail)
    this.#relays.push(relays)
    const awaitHere = (_: string, take: TakeAnswer) => {
      this.#answer = take
      return () => undefined
    }
    const session = {
      record: { id: 's' },
      noted: (name: string) => (name === STREAM ? 'here' : undefined),
      backendSession: () => ({ renew: () => undefined, inbox: { awaitHere } }),
    } as unknown as Session
    const streams = new SharedStreams(
      { known: () => session, refresh: () => Promise.resolve(), claim: () => undefined },
      { relays, findBackend: () => ({ name: 'b', share }) as Backend, onFault: fail },
    )
    const bus = this.#bus(replica)
    relays.follow(bus)
    streams.follow(bus)
    return { share, streams, session }
  }

  #bus(replica: string): SessionBus {
    const send = (message: BusMessage, to: string) => void this.#onItsWay.push([to, message])
    return {
      replica,
      notify: send,
      send: async (message: BusMessage, to: string) => {
        send(message, to)
        return true
      },
      on: (kind: BusKind, take: (message: never) => void) => void this.#takers.set(`${replica} ${kind}`, take),
      close: () => {},
    } as unknown as SessionBus
  }

  /** Delivers at most this many messages, including those that they cause. */
  async deliver(most = 1_000): Promise<void> {
    for (let left = most; left > 0; left--) {
      await new Promise((resolve) => setImmediate(resolve))
      const [to, message] = this.#onItsWay.shift() ?? []
      if (message === undefined) return
      this.#takers.get(`${to} ${message.kind}`)?.(message as never)
    }
  }

  /** Sends the backend's answer on the stream. */
  async answer(bytes: number): Promise<void> {
    await this.deliver()
    assert.ok(this.#answer, 'the answer is awaited at the stream')
    this.#answer?.(Buffer.alloc(bytes, 'x'))
  }

  get held(): readonly number[] {
    return [this.shares.here.held, this.shares.there.held]
  }

  [Symbol.dispose](): void {
    for (const relays of this.#relays) relays.close()
  }
}

test('an answer on its way is counted at both replicas, until it is taken', async () => {
  using pair = new Pair(1024 * KIB, 1024 * KIB)
  await pair.answer(512 * KIB)
  assert.equal(pair.held, [512 * KIB, 0])
  await pair.deliver(6)
  const [here, there] = pair.held
  assert.is(here, 512 * KIB)
  assert.ok(Number(there) > 0 && Number(there) < 512 * KIB, `${there}`)
  assert.is(pair.taken.length, 0)
  await pair.deliver()
  assert.equal(
    pair.taken.map((answer) => answer?.length),
    [512 * KIB],
  )
  assert.equal(pair.held, [0, 0])
})

test('an answer that nobody waits for any more is counted no longer', async () => {
  using pair = new Pair(1024 * KIB, 1024 * KIB)
  await pair.answer(512 * KIB)
  await pair.deliver(6)
  pair.leave()
  assert.is(pair.shares.there.held, 0)
  await pair.deliver()
  assert.equal(pair.held, [0, 0])
  assert.equal(pair.taken, [])
})

test('an answer that is too much for the replica that waits is dropped there', async () => {
  using pair = new Pair(1024 * KIB, 200 * KIB)
  await pair.answer(512 * KIB)
  await pair.deliver()
  assert.equal(pair.held, [0, 0])
  assert.equal(pair.taken, [])
})

test('an answer that is too much for the replica with the stream is lost there', async () => {
  using pair = new Pair(200 * KIB, 1024 * KIB)
  await pair.answer(512 * KIB)
  await pair.deliver()
  assert.equal(pair.held, [0, 0])
  assert.equal(pair.taken, [undefined])
})

test.run()
