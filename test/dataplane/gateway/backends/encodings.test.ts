/** Tests backends that compress although the request did not allow it. */
import type { ServerResponse } from 'node:http'
import { brotliCompressSync, constants, createGzip, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { answer, OK_RESULT, type RawRequest, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const encodings = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, zstd: zstdCompressSync } as const
const HUGE = 'x'.repeat(300_000)

/** Compresses everything that the server writes at once. */
function sendCompressed(encoding: keyof typeof encodings, res: ServerResponse): void {
  const writeHead = res.writeHead.bind(res)
  const end = res.end.bind(res)
  res.writeHead = ((status: number, headers: Record<string, string> = {}) =>
    writeHead(status, { ...headers, 'content-encoding': encoding })) as typeof res.writeHead
  res.end = ((text = '') => end(encodings[encoding](Buffer.from(text)))) as typeof res.end
}

const call = (request: RawRequest, res: ServerResponse): string | undefined => {
  const name = request.message.params?.['name']
  if (name === 'huge') return answer(request, `{"resultType":"complete","content":[{"type":"text","text":"${HUGE}"}]}`)
  if (name === 'events') {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.end(`data: ${answer(request, `{"resultType":"complete",${OK_RESULT.slice(1)}`)}\n\n`)
    return undefined
  }
  return answer(request, `{"resultType":"complete",${OK_RESULT.slice(1)}`)
}

for (const encoding of Object.keys(encodings) as (keyof typeof encodings)[])
  for (const era of ['legacy', 'modern'] as const)
    test(`${era}: a backend that answers with ${encoding} is listed and called`, async () => {
      const server = await startRawServer({
        era,
        tools: [tool('t'), tool('huge'), tool('events')],
        call,
        before(_request, res) {
          sendCompressed(encoding, res)
          return false
        },
      })
      const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
      const { client } = era === 'legacy' ? await connectV1(gateway.url) : await connect(gateway.url, 'modern')
      cleanups.push(
        () => server.close(),
        () => gateway.close(),
        () => client.close(),
      )
      assert.is((await client.listTools()).tools.length, 3)
      for (const name of ['t', 'events']) assert.is(readText(await client.callTool({ name, arguments: {} })), 'ok')
      assert.is(readText(await client.callTool({ name: 'huge', arguments: {} })), HUGE)
      assert.equal([...new Set(server.seen.map(({ headers }) => headers['accept-encoding']))], ['identity'])
    })

test('a compressed stream of notifications is read as it comes', async () => {
  let isGrown = false
  const streams: ReturnType<typeof createGzip>[] = []
  const server = await startRawServer({
    era: 'legacy',
    call,
    before(request, res) {
      const { method, message } = request
      if (message.method === 'initialize') {
        res.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' })
        res.end(
          answer(
            request,
            '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"x","version":"1"}}',
          ),
        )
        return true
      }
      if (message.method === 'tools/list') {
        res.writeHead(200, { 'content-type': 'application/json' })
        res.end(answer(request, `{"tools":[${isGrown ? `${tool('t')},${tool('u')}` : tool('t')}]}`))
        return true
      }
      if (method !== 'GET') return false
      const stream = createGzip({ flush: constants.Z_SYNC_FLUSH })
      res.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
      stream.pipe(res)
      stream.write(': hello\n\n')
      streams.push(stream)
      return true
    },
  })
  const gateway = await startGateway({ backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
  )
  await eventually('the stream', () => streams.length > 0)
  isGrown = true
  streams[0]?.write('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
  await eventually('the new tool', async () => (await gateway.status()).backends[0]?.tools === 2)
})

test('a small body that decompresses to a huge one is not buffered, and a broken one is an error', async () => {
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024, 0x20))
  const server = await startRawServer({
    era: 'legacy',
    tools: [tool('bomb'), tool('broken'), tool('unknown')],
    call({ message }, res) {
      const name = message.params?.['name']
      const encoding = name === 'unknown' ? 'rot13' : 'gzip'
      res.writeHead(200, { 'content-type': 'application/json', 'content-encoding': encoding })
      res.end(name === 'bomb' ? bomb : 'no gzip at all')
      return undefined
    },
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
  const { client } = await connectV1(gateway.url)
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
    () => client.close(),
  )
  const before = process.memoryUsage().rss
  for (const name of ['bomb', 'broken', 'unknown'])
    await client.callTool({ name, arguments: {} }).then(
      () => assert.unreachable(name),
      (error: Error) => assert.match(error.message, /did not answer as it should/, name),
    )
  assert.ok(process.memoryUsage().rss - before < 64 * 1024 * 1024)
  const messages = gateway.lines.map(({ reason }) => String(reason))
  assert.ok((await gateway.status()).backends[0]?.lastError?.message.includes('rot13'), messages.join('\n'))
})

test.run()
