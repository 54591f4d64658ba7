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

test.run()
