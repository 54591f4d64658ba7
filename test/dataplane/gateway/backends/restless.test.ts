/** Tests backends that make the gateway repeat requests. */
import type { ServerResponse } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connectV1 } from '../../../support/gateway/clients.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { answer, OK_RESULT, type RawServerOptions, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
const INITIALIZED =
  '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"x","version":"1"}}'

type Before = NonNullable<RawServerOptions['before']>

async function startRestless(before: Before) {
  const server = await startRawServer({
    era: 'legacy',
    tools: [tool('t')],
    call: (request) => answer(request, OK_RESULT),
    before(request, res) {
      if (request.message.method === 'initialize') {
        res.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': `s-${server.seen.length}` })
        res.end(answer(request, INITIALIZED))
        return true
      }
      return before(request, res)
    },
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
  return {
    server,
    gateway,
    async close() {
      await gateway.close()
      await server.close()
    },
  }
}

test('a backend that sends list_changed after each list is listed once a second', async () => {
  const streams = new Set<ServerResponse>()
  const backend = await startRestless((request, res) => {
    if (request.method === 'GET') {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      res.write(`data: ${CHANGED}\n\n`)
      streams.add(res)
      return true
    }
    if (request.message.method !== 'tools/list') return false
    res.writeHead(200, { 'content-type': 'application/json' })
    res.end(answer(request, `{"tools":[${tool('t')}]}`))
    for (const stream of streams) stream.write(`data: ${CHANGED}\n\n`)
    return true
  })
  try {
    await eventually('the stream', () => streams.size > 0)
    const before = backend.server.calls('tools/list').length
    const began = performance.now()
    await setTimeout(1_500)
    const looks = backend.server.calls('tools/list').length - before
    // On a busy machine this takes more than one and a half seconds.
    const seconds = (performance.now() - began) / 1000
    assert.ok(looks <= 1 + Math.ceil(seconds), `${looks} looks in ${seconds} s`)
    await eventually('a list request', () => backend.server.calls('tools/list').length > before)
  } finally {
    await backend.close()
  }
})

for (const retry of ['', 'retry: 10\n\n'])
  test(`a stream that ends at once ${retry === '' ? '' : 'and asks for haste '}is reopened with growing delays`, async () => {
    let gets = 0
    const { gateway, close } = await startRestless(({ method }, res) => {
      if (method !== 'GET') return false
      gets++
      res.writeHead(200, { 'content-type': 'text/event-stream' }).end(retry)
      return true
    })
    const { client } = await connectV1(gateway.url)
    try {
      await client.listTools()
      await eventually('a stream', () => gets > 0)
      const before = gets
      await setTimeout(1_500)
      assert.ok(gets - before <= 3, `${gets - before} streams`)
    } finally {
      await client.close()
      await close()
    }
  })

test.run()
