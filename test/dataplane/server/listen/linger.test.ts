import { once } from 'node:events'
import { connect } from 'node:net'
import { Hono } from 'hono'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { listen } from '../../../../dataplane/server/listen/listen.ts'

/** Sends a head and a whole body before it reads anything; returns the whole answer. */
async function writeAllThenRead(port: number, path: string, bytes: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.pause()
  let error: Error | undefined
  socket.on('error', (thrown) => {
    error = thrown
  })
  socket.write(`POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${bytes}\r\n\r\n`)
  const piece = Buffer.alloc(256 * 1024, 'x')
  for (let left = bytes; left > 0; left -= piece.length)
    if (!socket.write(piece.subarray(0, Math.min(left, piece.length)))) await once(socket, 'drain')
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.resume()
  await once(socket, 'close')
  assert.is(error, undefined)
  return Buffer.concat(chunks).toString()
}

/** Sends a text; returns all that comes until the server ends the connection. */
async function readAnswer(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  socket.write(text)
  let answer = ''
  for await (const chunk of socket) answer += chunk
  return answer
}

test('a refusal that closes the connection is read by a client that writes its whole body first', async () => {
  const listener = await listen(new Hono().fetch, '127.0.0.1:0', {
    direct(incoming, outgoing) {
      const refuse = () => outgoing.writeHead(413, { connection: 'close', 'content-length': '3' }).end('no\n')
      if (incoming.url === '/at-once') refuse()
      else incoming.once('data', refuse)
      return true
    },
  })
  try {
    for (const path of ['/at-once', '/later'])
      for (let round = 0; round < 5; round++) {
        const answer = await writeAllThenRead(listener.port, path, 32 * 1024 * 1024)
        assert.match(answer, /^HTTP\/1\.1 413 .*\r\n\r\nno\n$/s, path)
      }
  } finally {
    await listener.close(0)
  }
})

for (const [kind, length] of [
  ['long', 'content-length: 100000'],
  ['of unknown length', 'transfer-encoding: chunked'],
] as const)
  test(`a refusal says that it closes the connection if the rest of the request is ${kind}`, async () => {
    const app = new Hono().post('/', (c) => c.text('no', 401))
    const listener = await listen(app.fetch, '127.0.0.1:0')
    try {
      const answer = await readAnswer(listener.port, `POST / HTTP/1.1\r\nhost: 127.0.0.1\r\n${length}\r\n\r\n`)
      assert.match(answer, /^HTTP\/1\.1 401 .*\r\nconnection: close\r\n/is)
    } finally {
      await listener.close(0)
    }
  })

test('a refusal keeps the connection for the next request if the rest of its own is short', async () => {
  const app = new Hono().post('/', (c) => c.text('no', 401)).get('/next', (c) => c.text('next'))
  const listener = await listen(app.fetch, '127.0.0.1:0')
  try {
    const requests = ['POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 4\r\n\r\nbody']
    requests.push('GET /next HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n')
    assert.match(await readAnswer(listener.port, requests.join('')), /^HTTP\/1\.1 401 .*HTTP\/1\.1 200 .*next$/s)
  } finally {
    await listener.close(0)
  }
})

test.run()
