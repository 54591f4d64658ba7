/** Checks that limits for anonymous callers apply per address: the peer's, or the client's as reported by a trusted proxy. */
import { EventEmitter, once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { boundConnections, ClientRequests } from '../../../../dataplane/server/listen/connections.ts'
import { forwardedAddress, peerAddress } from '../../../../dataplane/server/network-of.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const buildRequest = (remoteAddress: string | undefined, forwarded?: string) => ({
  headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  socket: { remoteAddress },
})

test('a trusted proxy’s last entry is the client’s address; nothing else counts', () => {
  for (const [forwarded, address] of [
    ['192.0.2.7', '192.0.2.7'],
    ['198.51.100.1, 192.0.2.7', '192.0.2.7'],
    ['192.0.2.7, x', '10.0.0.1'],
    ['', '10.0.0.1'],
    ['2001:db8:1:2:3::4', '2001:db8:1:2'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
  ] as const)
    assert.is(forwardedAddress(buildRequest('10.0.0.1', forwarded)), address, forwarded)
  assert.is(forwardedAddress(buildRequest('10.0.0.1')), '10.0.0.1')
  assert.is(peerAddress(buildRequest('10.0.0.1', '192.0.2.7')), '10.0.0.1')
  assert.is(
    peerAddress(buildRequest('2001:db8:1:2:3::4')),
    peerAddress(buildRequest('2001:db8:1:2:ffff::')),
    'one network',
  )
  assert.is(peerAddress(buildRequest(undefined)), '')
})

async function serve(
  trustProxyHeaders: boolean,
  run: (gateway: GatewayUnderTest, countOpen: () => number) => Promise<void>,
): Promise<void> {
  const tools = [tool('t'), tool('hang')]
  let open = 0
  const backend = await startRawServer({
    era: 'modern',
    tools,
    call(request, res) {
      if (request.message.params?.['name'] !== 'hang') return answer(request, OK_RESULT)
      open++
      res.once('close', () => open--)
      return undefined
    },
  })
  const gateway = await startGateway({ trustProxyHeaders, backends: [{ name: 'b', url: backend.url }] })
  try {
    await run(gateway, () => open)
  } finally {
    await gateway.close()
    await backend.close()
  }
}

/** Sends a call as a client of this address behind a proxy; calls with `hang` are never answered. */
function send(gateway: GatewayUnderTest, address: string, name: string, args: object, signal: AbortSignal) {
  const { body, headers } = modern('tools/call', { name, arguments: args })
  const forwarded = { 'x-forwarded-for': `203.0.113.9, ${address}` }
  const init = { method: 'POST', headers: { ...BASE_HEADERS, ...headers, ...forwarded }, body, signal }
  return fetch(gateway.url, init)
}

for (const isTrusted of [true, false])
  test(`${isTrusted ? 'under' : 'without'} trustProxyHeaders: memory and calls of one client`, () =>
    serve(isTrusted, async (gateway, countOpen) => {
      for (const [args, count] of [
        [{ big: 'x'.repeat(7 * 1024 * 1024) }, 1],
        [{}, 512],
      ] as const) {
        const leaving = new AbortController()
        const { signal } = leaving
        let answered = 0
        for (let at = 0; at < count; at++)
          send(gateway, '192.0.2.1', 'b_hang', args, signal).then(
            () => answered++,
            () => {},
          )
        const status = async (address: string) => {
          const response = await send(gateway, address, 'b_t', args, signal)
          await response.text()
          return response.status
        }
        await eventually('the first client has all of its share', () => countOpen() === count)
        assert.is(await status('192.0.2.1'), 429)
        assert.is(answered, 0)
        assert.is(await status('192.0.2.2'), isTrusted ? 200 : 429, `${count} calls`)
        leaving.abort()
        await eventually('the share is given back', () =>
          send(gateway, '192.0.2.1', 'b_t', args, new AbortController().signal).then(({ status }) => status === 200),
        )
      }
    }))

for (const isProxied of [true, false])
  test(`one address has half of the connections${isProxied ? ', but for a proxy, which may have all' : ''}`, async () => {
    const server = createServer()
    boundConnections(server, 4, () => isProxied)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const sockets: Socket[] = []
    for (let at = 0; at < 4; at++) sockets.push(connect(port, '127.0.0.1').on('error', () => {}))
    let closed = 0
    for (const socket of sockets) socket.resume().on('close', () => closed++)
    const open = () => new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)))
    await eventually('all connections have been counted', async () => (await open()) === (isProxied ? 4 : 2))
    await eventually('the connections over the limit are closed', () => closed === (isProxied ? 0 : 2))
    for (const socket of sockets) socket.destroy()
    server.close()
  })

test('two networks leave room for connections of others, and a /48 counts as one network', () => {
  const server = new EventEmitter() as Server
  boundConnections(server, 64)
  const countAccepted = (remoteAddress: string, count: number) =>
    Array.from({ length: count }, () => {
      let isOpen = true
      const socket = { remoteAddress, destroy: () => (isOpen = false), once: () => undefined }
      server.emit('connection', socket as unknown as Socket)
      return isOpen
    }).filter((one) => one).length
  const wide = Array.from({ length: 64 }, (_, net) => countAccepted(`2001:db8:0:${(net << 8).toString(16)}::1`, 1))
  assert.is(
    wide.reduce((sum, one) => sum + one),
    32,
  )
  assert.is(countAccepted('192.0.2.1', 64), 24)
  assert.is(countAccepted('198.51.100.1', 64), 1)
  assert.is(countAccepted('198.51.100.2', 64), 1)
})

test('concurrent requests of a /48 behind a proxy are limited', () => {
  const requests = new ClientRequests(2)
  const response = { once: () => undefined } as unknown as ServerResponse
  const addresses = ['2001:db8:0:1', '2001:db8:0:100', '2001:db8:0:200', '2001:db8:1:1']
  assert.equal(
    addresses.map((address) => requests.begin(address, response)),
    [true, true, false, true],
  )
})

test('concurrent requests of a client behind a proxy are limited, and each counts until its response ends', () => {
  const requests = new ClientRequests(2)
  const over: (() => void)[] = []
  const response = { once: (_: string, close: () => void) => over.push(close) } as unknown as ServerResponse
  assert.equal(
    ['a', 'a', 'a', 'b'].map((address) => requests.begin(address, response)),
    [true, true, false, true],
  )
  over[0]?.()
  assert.ok(requests.begin('a', response))
  assert.not(requests.begin('a', response))
})

test.run()
