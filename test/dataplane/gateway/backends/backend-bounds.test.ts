import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { MessageStream } from '../../../../dataplane/gateway/backends/connection/message-stream.ts'
import { UnfinishedEvent } from '../../../../dataplane/gateway/backends/connection/unfinished-event.ts'
import { ListRoom } from '../../../../dataplane/gateway/backends/lists/list-memory.ts'
import { readCapabilities, readInstructions } from '../../../../dataplane/gateway/backends/session/era.ts'
import { Budget } from '../../../../dataplane/server/budget.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const MIB = 1024 * 1024
const createBudget = (share: number) => new Budget({ total: share, share, reserve: 0 })

/** Starts a server that lists its tools in this many pages. */
function startPaged(pages: number, page: (index: number) => object): Promise<RawServer> {
  return startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before({ message: { id, method, params } }, res) {
      if (method !== 'tools/list') return false
      const index = Number(params?.['cursor'] ?? 0)
      const more = index + 1 < pages ? { nextCursor: `${index + 1}` } : {}
      const result = { resultType: 'complete', ttlMs: 0, cacheScope: 'private', ...page(index), ...more }
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
      return true
    },
  })
}

test('a list that is too large is cut and reported, and the rest works', async () => {
  const requests = { large: 0, padded: 0 }
  const large = await startPaged(20, (page) => {
    requests.large++
    return { tools: [{ name: `t${page}`, description: 'x'.repeat(MIB), inputSchema: { type: 'object' } }] }
  })
  // Each page shows little and has much padding.
  const padded = await startPaged(20, (page) => {
    requests.padded++
    return { tools: [{ name: `t${page}`, inputSchema: { type: 'object' } }], more: 'x'.repeat(MIB) }
  })
  const gateway = await startGateway({
    backends: [
      { name: 'large', url: large.url },
      { name: 'padded', url: padded.url },
    ],
    failureHandling: { healthCheckInterval: '1h', healthCheckTimeout: '5m', partialFailureMode: 'best_effort' },
  })
  try {
    await gateway.listed()
    const { backends, problems } = (await gateway.status()) as unknown as Status
    assert.equal(requests, { large: 16, padded: 20 })
    assert.equal(
      backends.map(({ tools }) => tools),
      [15, 20],
    )
    assert.equal(
      problems.filter(({ code }) => code === 'ListCut').map(({ message }) => message),
      ['large: the list of tools is cut: it is larger than there is room for'],
    )
    for (const name of ['large_t0', 'padded_t19'])
      assert.match((await postModern(gateway.url, 'tools/call', { name })).text, '"ok"')
  } finally {
    await gateway.close()
    await large.close()
    await padded.close()
  }
})

interface Status {
  readonly backends: readonly { readonly tools: number }[]
  readonly problems: readonly { readonly code: string; readonly message: string }[]
}

test('a list counts with its stored size, and while it is read again with its growth', () => {
  const budget = createBudget(10_000)
  const room = new ListRoom(budget.shareOf('b'))
  const read = (lengths: readonly number[]) => {
    room.begin()
    return lengths.map(room.fits)
  }
  assert.equal(read([1000, 1000]), [true, true])
  room.settle()
  const before = budget.held
  assert.equal(read([1000]), [true])
  assert.is(budget.held, before, 'the buffered bytes are passed on')
  room.giveUp()
  assert.is(budget.held, before)
  assert.equal(read([1000, 9000, 10]), [true, false, false], 'nothing follows the part that did not fit')
  room.settle()
  assert.ok(room.isFull)
  assert.ok(budget.held < before)
  read([10])
  room.settle()
  assert.not(room.isFull)
  read([5000])
  room.release()
  assert.is(budget.held, 0)
  assert.equal(read([10]), [false], 'a backend that is closed keeps nothing')
  room.settle()
  assert.is(budget.held, 0)
})

test('a backend’s description of itself is bounded and shared by sessions', () => {
  const capabilities = { tools: {}, x: 'x'.repeat(70_000) }
  assert.throws(() => readCapabilities({ capabilities }), /larger than 64 KiB/)
  const own = { tools: {}, x: 'x'.repeat(10_000) }
  const first = readCapabilities({ capabilities: own })
  assert.is(readCapabilities({ capabilities: structuredClone(own) }, first), first)
  assert.throws(() => readCapabilities({ capabilities: { ...own, y: 1 } }, first), /larger than 4 KiB/)
  assert.is(readInstructions({ instructions: 'x'.repeat(100_000) })?.length, 65_536)
})

test('endless events are counted, and dropped if there is no room', () => {
  const budget = createBudget(1000)
  const share = budget.shareOf('b')
  const messages: string[] = []
  const options = {
    share,
    log: { error() {} },
    onMessage: (bytes: Buffer) => messages.push(bytes.toString()),
    onEnd() {},
  }
  const controller = { abort() {} } as never
  const stream = () => {
    const one = new MessageStream(options)
    one.onResponseStart(controller, 200, { 'content-type': 'text/event-stream' })
    return one
  }
  const [one, two] = [stream(), stream()] as const
  one.onResponseData(controller, Buffer.from(`data: ${'x'.repeat(700)}`))
  assert.is(budget.held, 700)
  two.onResponseData(controller, Buffer.from(`data: ${'y'.repeat(700)}`))
  assert.is(budget.held, 700, 'the second one keeps nothing')
  two.onResponseData(controller, Buffer.from('y\n\ndata: 1\n\n'))
  one.onResponseData(controller, Buffer.from('\n\n'))
  assert.equal(messages, ['1', 'x'.repeat(700)])
  assert.is(budget.held, 0)
  one.onResponseData(controller, Buffer.from('data: x'))
  one.onResponseEnd()
  assert.is(budget.held, 0)
})

test('an event in many pieces arrives whole', () => {
  const event = new UnfinishedEvent(createBudget(10_000).shareOf('b'))
  for (let at = 0; at < 1000; at++) {
    event.push(Buffer.from(String(at % 10)))
    assert.ok(event.settle())
  }
  assert.is(event.take().toString(), '0123456789'.repeat(100))
  assert.is(event.take().length, 0)
})

test.run()
