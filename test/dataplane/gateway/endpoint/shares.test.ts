/** Checks that the memory that callers use counts against their shares: sessions, streams, batches and unread answers. */
import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Dispatcher } from 'undici'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Transport } from '../../../../dataplane/gateway/backends/connection/http.ts'
import { requestBackend } from '../../../../dataplane/gateway/backends/connection/request.ts'
import { BatchAnswers, type BatchPart } from '../../../../dataplane/gateway/endpoint/batch.ts'
import { Unread } from '../../../../dataplane/gateway/request/reply.ts'
import { type NoteKeeper, Session } from '../../../../dataplane/gateway/sessions/session.ts'
import { Budget, type Share } from '../../../../dataplane/server/budget.ts'
import { PublicError } from '../../../../dataplane/server/errors.ts'
import { type Connection, post } from '../../../soak/hostile/connection.ts'
import { eventually } from '../../../support/eventually.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { modern } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

const createShare = (share: number): Share => new Budget({ total: 1e9, share, reserve: 0 }).shareOf('caller')

/** A response that buffers what is written until `read` is called. */
class Response extends EventEmitter {
  readonly writableHighWaterMark = 100
  writableLength = 0
  destroyed = false
  written = ''

  writeHead(): this {
    return this
  }

  write(bytes: Buffer | string): boolean {
    this.written += bytes
    this.writableLength += bytes.length
    return this.writableLength <= this.writableHighWaterMark
  }

  end(bytes = ''): this {
    this.write(bytes)
    return this
  }

  read(): void {
    this.writableLength = 0
    this.emit('drain')
  }

  destroy(): void {
    this.destroyed = true
    this.emit('close')
  }

  get asServerResponse(): ServerResponse {
    return this as unknown as ServerResponse
  }
}

test('unread bytes of a client are counted and released when it reads, and too many cut the connection', () => {
  const share = createShare(1000)
  const res = new Response()
  const unread = new Unread(res.asServerResponse, share)
  res.write('x'.repeat(600))
  unread.check()
  assert.is(share.held, 600)
  res.read()
  assert.is(share.held, 0)
  res.write('x'.repeat(1001))
  unread.check()
  assert.ok(res.destroyed)
  assert.is(share.held, 0)
})

class Part implements BatchPart {
  readonly waiting: Buffer[] = []
  isWhole = false
  goneOn = 0

  resume(): void {
    this.goneOn++
  }
}

function createBatch(limit: number, missing: number) {
  const share = createShare(limit)
  const res = new Response()
  let ends = 0
  const answers = new BatchAnswers(res.asServerResponse, { share, requestId: 'r', missing, onEnd: () => ends++ })
  return { share, res, answers, ends: () => ends }
}

test('waiting answers of a batch are counted, and their backends wait', () => {
  const { share, res, answers, ends } = createBatch(2000, 2)
  const [one, two] = [new Part(), new Part()]
  assert.is(answers.part(one, Buffer.from('{"a":')), true)
  assert.is(answers.part(two, Buffer.from('x'.repeat(300))), false)
  assert.is(answers.part(two, Buffer.from('y'.repeat(300))), false)
  assert.is(share.held, 600)
  answers.part(one, Buffer.from('1}'))
  one.isWhole = true
  answers.ended(one)
  assert.is(res.written, `[{"a":1},${'x'.repeat(300)}${'y'.repeat(300)}`)
  res.read()
  assert.is(two.goneOn, 1)
  two.isWhole = true
  answers.ended(two)
  assert.is(share.held, 0)
  assert.is(ends(), 1)
})

test('a batch with too large waiting answers is cut, and others continue', () => {
  const { share, res, answers } = createBatch(1000, 3)
  const [one, two, three] = [new Part(), new Part(), new Part()]
  answers.part(one, Buffer.from('{'))
  answers.part(two, Buffer.from('x'.repeat(900)))
  assert.not(res.destroyed)
  answers.part(three, Buffer.from('x'.repeat(200)))
  assert.ok(res.destroyed)
  assert.is(share.held, 0)
  assert.ok(two.goneOn > 0)
  assert.is(two.waiting.length, 0)
})

/** A backend whose answers the test sets. */
class Answering {
  isAborted = false
  #handler: Dispatcher.DispatchHandler | undefined
  readonly #controller = { abort: () => this.#aborted() } as unknown as Dispatcher.DispatchController
  readonly transport = {
    dispatch: (_: unknown, handler: Dispatcher.DispatchHandler) => {
      this.#handler = handler
      handler.onRequestStart?.(this.#controller, undefined)
      handler.onResponseStart?.(this.#controller, 200, { 'content-type': 'application/json' }, 'OK')
      return true
    },
  } as unknown as Transport

  #aborted(): void {
    this.isAborted = true
    this.#handler?.onResponseError?.(this.#controller, new Error('aborted'))
  }

  write(text: string): void {
    this.#handler?.onResponseData?.(this.#controller, Buffer.from(text))
  }

  end(): void {
    this.#handler?.onResponseEnd?.(this.#controller, {})
  }
}

function ownRequest(limit: number) {
  const share = createShare(limit)
  const backend = new Answering()
  const { transport: dispatcher } = backend
  const body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
  const answer = requestBackend({ dispatcher, share, body, path: '/', method: 'POST', headers: [], timeoutMs: 60_000 })
  backend.write('{"jsonrpc":"2.0","id":1,"result":{"tools":[],"a":"')
  return { share, backend, answer }
}

test('a large answer to the gateway itself counts in the share of its backend, until it is read', async () => {
  const { share, backend, answer } = ownRequest(1_000_000)
  for (let part = 0; part < 5; part++) backend.write('x'.repeat(100_000))
  assert.ok(share.held > 400_000, `${share.held}`)
  backend.write('"}}')
  backend.end()
  assert.ok((await answer).text.length > 500_000)
  assert.is(share.held, 0)
})

test('an answer to the gateway itself for which there is no room fails the request', async () => {
  const { share, backend, answer } = ownRequest(300_000)
  for (let part = 0; part < 5 && !backend.isAborted; part++) backend.write('x'.repeat(100_000))
  await answer.then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, 'too much memory'),
  )
  assert.ok(backend.isAborted)
  assert.is(share.held, 0)
})

const keeper: NoteKeeper = {
  note() {},
  claim: () => undefined,
  sharedStreams: { isElsewhere: () => false, claim: () => undefined, await: () => undefined },
  opened() {},
}
const createSession = (share: Share, capabilities = '{}') =>
  new Session({ id: 's', binding: 'b', revision: '2025-11-25', capabilities }, keeper, share)

test('a session and its subscriptions count against their caller until they end', () => {
  const share = createShare(20_000)
  const session = createSession(share)
  const alone = share.held
  assert.ok(alone >= 1024)
  let stopped = 0
  const watch = () => ({ active: Promise.resolve(), stop: () => stopped++ })
  session.watch(`test://${'x'.repeat(1000)}`, watch)
  assert.ok(share.held >= alone + 6000)
  session.watch(`test://${'y'.repeat(1000)}`, watch)
  assert.throws(
    () => session.watch(`test://${'z'.repeat(1000)}`, watch),
    (error: unknown) => error instanceof PublicError && error.code === 'share_exceeded',
  )
  session.unwatch(`test://${'y'.repeat(1000)}`)
  session.watch(`test://${'z'.repeat(1000)}`, watch)
  const reservation = session.reservation(1000)
  assert.throws(() => session.reservation(10_000))
  reservation.release()
  session.end(true)
  assert.is(share.held, 0)
  assert.is(stopped, 3)
})

test('a caller can have as many sessions as fit into its share', () => {
  const share = createShare(20_000)
  const sessions: Session[] = []
  try {
    while (sessions.length < 100) sessions.push(createSession(share))
  } catch (error) {
    assert.is((error as PublicError).code, 'share_exceeded')
  }
  assert.is(sessions.length, 19)
  sessions[0]?.end(true)
  sessions.push(createSession(share))
})

test('listening streams are counted with the URIs that they watch', async () => {
  const backend = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before(request, res) {
      if (request.message.method !== 'server/discover') return false
      const capabilities = { tools: {}, resources: { subscribe: true } }
      const result = { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities }
      res.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, JSON.stringify(result)))
      return true
    },
  })
  const gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }] })
  const at = { port: Number(new URL(gateway.url).port), address: '127.0.0.1' }
  const uris = Array.from({ length: 200 }, (_, index) => `none://${'x'.repeat(300)}${index}`)
  const { body, headers } = modern('subscriptions/listen', { notifications: { resourceSubscriptions: uris } })
  const streams: Connection[] = []
  try {
    let refused = 0
    // Each caller gets a quarter of 48 MiB: four copies of 61 kB, and 16 KiB.
    while (refused === 0 && streams.length < 250) {
      const connection = await post(at, body, headers)
      streams.push(connection)
      const status = await connection.status
      if (status !== 200) refused = status ?? -1
    }
    assert.is(refused, 429)
    assert.ok(streams.length > 100, `${streams.length}`)
  } finally {
    for (const { socket } of streams) socket.destroy()
    await gateway.close()
    await backend.close()
  }
})

test('a listening client that does not read is disconnected', async () => {
  const uri = `test://${'x'.repeat(60_000)}`
  const streams = new Set<ServerResponse>()
  const backend = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before(request, res) {
      const { method } = request.message
      const give = (result: object) =>
        res
          .writeHead(200, { 'content-type': 'application/json' })
          .end(answer(request, JSON.stringify({ resultType: 'complete', ...result })))
      if (method === 'server/discover')
        give({ supportedVersions: ['2026-07-28'], capabilities: { tools: {}, resources: { subscribe: true } } })
      else if (method === 'resources/list') give({ resources: [{ uri, name: 'r' }] })
      else if (method === 'resources/templates/list') give({ resourceTemplates: [] })
      else if (method === 'subscriptions/listen') {
        res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        streams.add(res)
      } else return false
      return true
    },
  })
  const gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }] })
  try {
    const at = { port: Number(new URL(gateway.url).port), address: '127.0.0.1' }
    const { body, headers } = modern('subscriptions/listen', { notifications: { resourceSubscriptions: [uri] } })
    const { socket, status } = await post(at, body, headers)
    assert.is(await status, 200)
    await eventually('the gateway to watch', () => streams.size > 0)
    const update = { jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } }
    const event = `data: ${JSON.stringify(update)}\n\n`
    for (const stream of streams) for (let count = 0; count < 300; count++) stream.write(event)
    await eventually('its share of the backend’s stream to end', () => [...streams].every(({ closed }) => closed))
    let tail = ''
    socket.on('data', (data) => {
      tail = (tail + data).slice(-500)
    })
    socket.resume()
    await eventually('the graceful end', () => tail.includes('"resultType":"complete"'))
    socket.destroy()
  } finally {
    await gateway.close()
    await backend.close()
  }
})

test.run()
