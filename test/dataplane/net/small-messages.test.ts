/** Tests the connections that requests to backends and providers use, with a server that sees each byte. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Dispatcher } from 'undici'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createDispatcher } from '../../../dataplane/net/connect.ts'

/** What a server gets of one request, and how it answers: with these pieces, one after another. */
interface Heard {
  head: string
  body: Buffer
  readonly pieces: number[]
}

const HEAD_END = '\r\n\r\n'

async function withServer(
  answer: (socket: Socket, heard: Heard) => void | Promise<void>,
  body: (dispatcher: Dispatcher, heard: Heard[]) => Promise<void>,
): Promise<void> {
  const all: Heard[] = []
  const server = createServer((socket) => {
    let bytes = Buffer.alloc(0)
    let pieces: number[] = []
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk])
      pieces.push(chunk.length)
      const end = bytes.indexOf(HEAD_END)
      if (end === -1) return
      const head = bytes.toString('latin1', 0, end)
      const [, length] = /content-length: (\d+)/.exec(head) ?? []
      const isWhole =
        length === undefined ? bytes.includes('\r\n0\r\n\r\n', end) : bytes.length >= end + 4 + Number(length)
      if (!isWhole) return
      const heard = { head, body: bytes.subarray(end + 4), pieces }
      bytes = Buffer.alloc(0)
      pieces = []
      all.push(heard)
      Promise.resolve(answer(socket, heard)).catch((error: Error) => socket.destroy(error))
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const dispatcher = createDispatcher({ origin: `http://127.0.0.1:${port}`, allowLoopback: true, connections: 4 })
  try {
    await body(dispatcher, all)
  } finally {
    await dispatcher.destroy()
    server.close()
  }
}

const reply = (text: string | Buffer): Buffer =>
  Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${text.length}${HEAD_END}`), Buffer.from(text)])

/** Sends a request and reads the answer. Calls `onHead` when its head has been read. */
async function send(
  dispatcher: Dispatcher,
  body: string | Buffer | Readable | null = null,
  onHead?: () => void,
): Promise<{ readonly text: string; readonly parts: readonly Buffer[] }> {
  const answer = await dispatcher.request({ path: '/', method: 'POST', headers: { 'x-a': 'ä' }, body })
  onHead?.()
  const parts: Buffer[] = []
  for await (const part of answer.body) parts.push(part as Buffer)
  return { text: Buffer.concat(parts).toString('latin1'), parts }
}

/** Bytes of all values, in no order that UTF-8 would accept. */
const anyBytes = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, index) => (index * 7) % 256))

for (const length of [1, 200, 16_000, 16_384, 16_385, 40_000, 1_000_000])
  test(`a body of ${length} bytes arrives as it was given, whichever way it is written`, () =>
    withServer(
      (socket) => void socket.write(reply('ok')),
      async (dispatcher, heard) => {
        const body = anyBytes(length)
        for (let turn = 0; turn < 3; turn++) assert.is((await send(dispatcher, body)).text, 'ok')
        for (const { head, body: arrived } of heard) {
          assert.match(head, /^POST \/ HTTP\/1\.1\r\n/)
          assert.match(head, 'x-a: \xe4')
          assert.is(arrived.equals(body), true)
        }
        assert.is(heard.length, 3)
      },
    ))

test('a small request arrives as one piece', () =>
  withServer(
    (socket) => void socket.write(reply('ok')),
    async (dispatcher, heard) => {
      for (let turn = 0; turn < 5; turn++) await send(dispatcher, '{"text":"ä€😀"}')
      for (const { body, pieces } of heard) {
        assert.is(body.toString(), '{"text":"ä€😀"}')
        assert.is(pieces.length, 1)
      }
    },
  ))

test('a request without a body, and one whose body is a stream, arrive whole', () =>
  withServer(
    (socket) => void socket.write(reply('ok')),
    async (dispatcher, heard) => {
      await send(dispatcher)
      await send(dispatcher, Readable.from([Buffer.from('one'), Buffer.from('two'), anyBytes(20_000)]))
      await send(dispatcher, 'after')
      const [none, stream, after] = heard as [Heard, Heard, Heard]
      assert.is(none.body.length, 0)
      const chunks = Buffer.concat([Buffer.from('3\r\none\r\n3\r\ntwo\r\n4e20\r\n'), anyBytes(20_000)])
      assert.is(stream.body.subarray(0, chunks.length).equals(chunks), true)
      assert.is(after.body.toString(), 'after')
    },
  ))

test('what was read stays as it was while other connections read', () =>
  withServer(
    async (socket, { body }) => {
      const text = Buffer.alloc(50_000, body)
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${text.length}${HEAD_END}`)
      for (let at = 0; at < text.length; at += 5_000) {
        socket.write(text.subarray(at, at + 5_000))
        await sleep(2)
      }
    },
    async (dispatcher) => {
      const names = ['a', 'b', 'c', 'd']
      const answers = await Promise.all(names.map((name) => send(dispatcher, name)))
      for (const [index, { text }] of answers.entries()) assert.is(text, (names[index] as string).repeat(50_000))
    },
  ))

test('only the beginning of an answer takes memory of the pool, so that kept bytes keep no others', () => {
  let headRead = Promise.withResolvers<void>()
  return withServer(
    async (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 20${HEAD_END}`)
      await headRead.promise
      for (let index = 0; index < 20; index++) {
        await sleep(5)
        socket.write('x')
      }
    },
    async (dispatcher) => {
      for (let turn = 0; turn < 2; turn++) {
        headRead = Promise.withResolvers<void>()
        const { parts } = await send(dispatcher, 'go on', headRead.resolve)
        assert.is(parts.length > 5, true)
        for (const part of parts) assert.is(part.buffer.byteLength < 100, true, `${part.buffer.byteLength} bytes`)
      }
    },
  )
})

test.run()
