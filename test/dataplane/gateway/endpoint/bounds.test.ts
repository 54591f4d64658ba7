import { existsSync, readFileSync } from 'node:fs'
import { Agent, request } from 'undici'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { parseTimer } from '../../../../crds/settings/duration.ts'
import { pauseBeforeRest } from '../../../../dataplane/gateway/backends/connection/request.ts'
import { normalCapabilities } from '../../../../dataplane/gateway/mcp/client-capabilities.ts'
import { buildHead, type Connection, open, post as postAndWait } from '../../../soak/hostile/connection.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const MIB = 1024 * 1024

const test = suite('bounds of what callers make a gateway hold')
let backend: RawServer
let gateway: GatewayUnderTest
/** Ends the pending calls of `hang`. */
let letGo: (() => void)[] = []
/** The bytes that `chat` and `large` have written, and whether they still write. */
let poured = 0

test.before(async () => {
  backend = await startRawServer({
    era: 'legacy',
    tools: ['hang', 'chat', 'large', 'small'].map((name) => `{"name":"${name}","inputSchema":{"type":"object"}}`),
    call({ message: { id, params } }, res) {
      const name = params?.['name']
      const answer = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[]}}`
      if (name === 'small') return answer
      if (name === 'hang') letGo.push(() => res.writeHead(200, { 'content-type': 'application/json' }).end(answer))
      else if (name === 'chat') {
        const progressToken = 'p'
        const note = {
          method: 'notifications/progress',
          params: { progressToken, progress: 1, message: 'x'.repeat(32_000) },
        }
        res.writeHead(200, { 'content-type': 'text/event-stream' })
        const data = `data: ${JSON.stringify({ jsonrpc: '2.0', ...note })}\n\n`
        writePieces(res, data, 1000, () => res.end(`data: ${answer}\n\n`))
      } else {
        res.writeHead(200, { 'content-type': 'application/json' })
        res.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"type":"text","text":"`)
        writePieces(res, 'x'.repeat(64 * 1024), 320, () => res.end('"}]}}'))
      }
      return undefined
    },
  })
  gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }] })
})

function writePieces(res: import('node:http').ServerResponse, piece: string, count: number, end: () => void): void {
  let left = count
  const writeMore = () => {
    while (left > 0) {
      left--
      poured += piece.length
      if (!res.write(piece)) {
        res.once('drain', writeMore)
        return
      }
    }
    end()
  }
  writeMore()
}

test.before.each(() => {
  poured = 0
  letGo = []
})
test.after(async () => {
  await gateway.close()
  await backend.close()
})

/** Resolves when nothing has been written for a while. */
async function atRest(): Promise<void> {
  let before = -1
  let since = performance.now()
  await eventually('the backend to be held up', () => {
    if (poured !== before) since = performance.now()
    before = poured
    return poured > 0 && performance.now() - since > 300
  })
}

/**
 * Returns the bytes that the kernel buffers for connections with these servers. Its buffers may grow to tens of
 * mebibytes. Only Linux reports this; other systems' buffers are small.
 */
function inKernel(urls: readonly string[]): number {
  const ports = new Set(urls.map((url) => Number(new URL(url).port)))
  const table = '/proc/net/tcp'
  if (!existsSync(table)) return 0
  const parsePort = (address = '') => Number.parseInt(address.split(':')[1] ?? '', 16)
  const rows = readFileSync(table, 'utf8').trim().split('\n').slice(1)
  return rows.reduce((sum, row) => {
    const [, local, remote, , queues = ''] = row.trim().split(/\s+/)
    if (!ports.has(parsePort(local)) && !ports.has(parsePort(remote))) return sum
    const [sent = 0, received = 0] = queues.split(':').map((size) => Number.parseInt(size, 16))
    return sum + sent + received
  }, 0)
}

const readAddress = () => ({ port: Number(new URL(gateway.url).port), address: '127.0.0.1' })
const call = (name: string, args: object = {}, id: unknown = 1) =>
  rpc('tools/call', { name: `b_${name}`, arguments: args, _meta: { progressToken: 'p' } }, id)

test('only the capabilities that matter are kept, and too many are refused', async () => {
  const large = { elicitation: {}, experimental: { x: 'x'.repeat(70_000) } }
  const params = { protocolVersion: '2025-11-25', capabilities: large, clientInfo: { name: 'c', version: '1' } }
  const refused = await post(gateway.url, rpc('initialize', params))
  assert.is(refused.status, 413)
  assert.equal(
    normalCapabilities({
      elicitation: { url: {}, form: { applyDefaults: true }, more: {} },
      sampling: { tools: {}, x: 1 },
      roots: { listChanged: true, x: 1 },
      extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['b', 'a', 'b', 7], x: 1 }, 'x/y': {} },
      experimental: { x: 1 },
      tasks: {},
    }),
    {
      elicitation: { form: {}, url: {} },
      sampling: { tools: {} },
      roots: { listChanged: true },
      extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['a', 'b'] } },
    },
  )
  for (const wrong of [undefined, null, 7, 'x', [], { elicitation: 1, sampling: [], roots: 'x', extensions: null }])
    assert.equal(normalCapabilities(wrong), {})
})

test('capabilities that are nested too deep make the message invalid, and nothing is logged', async () => {
  const deep = `${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}`
  const params = { protocolVersion: '2025-11-25', capabilities: 0, clientInfo: { name: 'c', version: '1' } }
  const body = rpc('initialize', params).replace('"capabilities":0', `"capabilities":${deep}`)
  const lines = gateway.lines.length
  assert.is((await post(gateway.url, body)).status, 400)
  const meta = modern('tools/list')
  const inMeta = meta.body.replace(
    '"io.modelcontextprotocol/clientCapabilities":{}',
    `"io.modelcontextprotocol/clientCapabilities":${deep}`,
  )
  assert.is((await post(gateway.url, inMeta, meta.headers)).status, 400)
  assert.is(gateway.lines.slice(lines).filter(({ level }) => level === 'error').length, 0)
})

test('memory that the gateway holds for one caller counts against that caller, and is released in the end', async () => {
  const session = await openSession(gateway.url)
  const connections: Connection[] = []
  for (let count = 0; count < 4; count++)
    connections.push(await postAndWait(readAddress(), call('hang', { x: 'x'.repeat(5 * MIB) }, count), session))
  await eventually('calls to be under way', () => letGo.length === 2)
  for (const { status } of connections.slice(2)) assert.is(await status, 429)
  const refused = await post(gateway.url, call('small', { x: 'x'.repeat(5 * MIB) }), session)
  assert.is(refused.status, 429)
  assert.is(refused.headers.get('retry-after'), '1')
  assert.is(refused.json.error.code, 429)

  const elsewhere = new Agent({ localAddress: '127.0.0.2' })
  const other = modern('tools/call', { name: 'b_small', arguments: { x: 'x'.repeat(5 * MIB) } })
  const options = {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...other.headers },
    body: other.body,
    dispatcher: elsewhere,
  } as const
  const answer = await request(gateway.url, options)
  assert.is(answer.statusCode, 200)
  await answer.body.dump()
  await elsewhere.close()

  for (const end of letGo) end()
  assert.is(await connections[0]?.status, 200)
  assert.is((await post(gateway.url, call('small', { x: 'x'.repeat(7 * MIB) }), session)).status, 200)
  for (const { socket } of connections) socket.destroy()
})

test('a body that could never fit is refused as such', async () => {
  const session = await openSession(gateway.url)
  const many = call('small', { x: 0 }).replace('"x":0', `"x":[${'[],'.repeat(2_500_000)}[]]`)
  assert.is((await post(gateway.url, many, session)).status, 413)
})

test('a client that disconnects in the middle of its body holds no memory any more', async () => {
  for (let count = 0; count < 8; count++) {
    const { headers } = modern('tools/call', { name: 'b_small' })
    const body = 'x'.repeat(7 * MIB)
    const started = await open(readAddress(), [buildHead('POST', { ...BASE_HEADERS, ...headers }, 8 * MIB), body])
    started.socket.destroy()
    // The gateway may have closed it before, if it has not seen yet that the one before it is gone.
    await eventually('the connection is closed', () => started.socket.closed)
  }
  await eventually('to be served', async () => {
    const { status } = await postModern(gateway.url, 'tools/call', {
      name: 'b_small',
      arguments: { x: 'x'.repeat(7 * MIB) },
    })
    return status === 200
  })
})

for (const name of ['chat', 'large'])
  for (const era of ['modern', 'legacy'])
    test(`a ${era} client that does not read holds up its backend: ${name}`, async () => {
      const session = era === 'legacy' ? await openSession(gateway.url) : {}
      const request = modern('tools/call', { name: `b_${name}`, _meta: { ...modernMeta, progressToken: 'p' } })
      const { body, headers } = era === 'legacy' ? { body: call(name), headers: session } : request
      const { socket, status } = await postAndWait(readAddress(), body, headers)
      assert.is(await status, 200)
      await atRest()
      const buffered = poured - inKernel([gateway.url, backend.url])
      assert.ok(buffered < 2 * MIB, `${buffered} bytes`)
      socket.resume()
      const whole = name === 'chat' ? 32_000_000 : 320 * 64 * 1024
      await eventually('the rest is sent', () => poured >= whole)
      socket.destroy()
    })

test('a batch of large answers is streamed, and an unread one holds up all of its backends', async () => {
  const session = await openSession(gateway.url, {}, '2025-03-26')
  const body = `[${['large', 'small', 'large', 'small'].map((name, id) => call(name, {}, id)).join()}]`
  const { status, text } = await post(gateway.url, body, session)
  assert.is(status, 200)
  const answers = JSON.parse(text) as { id: number; result: { content: { text: string }[] } }[]
  assert.equal(answers.map(({ id }) => id).sort(), [0, 1, 2, 3])
  for (const id of [0, 2])
    assert.is(answers.find((one) => one.id === id)?.result.content[0]?.text.length, 320 * 64 * 1024)

  poured = 0
  const { socket, status: begun } = await postAndWait(readAddress(), body, session)
  assert.is(await begun, 200)
  await atRest()
  assert.ok(poured < 20 * MIB, `${poured} bytes of ${40 * MIB}`)
  socket.resume()
  await eventually('the rest is sent', () => poured >= 40 * MIB)
  socket.destroy()
})

test('a listening stream does not keep its request', async () => {
  const meta = { ...modernMeta, x: 'x'.repeat(7 * MIB) }
  const { body, headers } = modern(
    'subscriptions/listen',
    { notifications: { toolsListChanged: true }, _meta: meta },
    'an id of some length',
  )
  const connections: Connection[] = []
  for (let count = 0; count < 6; count++) {
    const connection = await postAndWait(readAddress(), body, headers)
    assert.is(await connection.status, 200)
    connections.push(connection)
  }
  const uris = Array.from({ length: 200 }, (_, index) => `any://${index}${'x'.repeat(1000)}`)
  const many = await postModern(gateway.url, 'subscriptions/listen', { notifications: { resourceSubscriptions: uris } })
  assert.is(many.status, 413)
  for (const { socket } of connections) socket.destroy()
})

test('equal capabilities share a backend session, and of many kinds the oldest session ends', async () => {
  const countOpened = () => backend.calls('initialize').length
  const countEnded = () => backend.seen.filter(({ method }) => method === 'DELETE').length
  const callAs = async (capabilities: object) => {
    const _meta = { ...modernMeta, 'io.modelcontextprotocol/clientCapabilities': capabilities }
    assert.is((await postModern(gateway.url, 'tools/call', { name: 'b_small', _meta })).status, 200)
  }
  const before = countOpened()
  for (let index = 0; index < 20; index++) await callAs({ elicitation: { [`x${index}`]: {} }, experimental: { index } })
  assert.is(countOpened(), before + 1)
  const endedBefore = countEnded()
  const ui = 'io.modelcontextprotocol/ui'
  for (let index = 0; index < 40; index++)
    await callAs({ elicitation: {}, extensions: { [ui]: { mimeTypes: [`text/x${index}`] } } })
  assert.is(countOpened(), before + 41)
  await eventually('sessions to end', () => countEnded() - endedBefore >= 40 - 16)
})

test('a backend that asks for a long delay is asked in five minutes, not at once', () => {
  assert.is(pauseBeforeRest(4_294_967_296_000), 300_000)
  assert.is(pauseBeforeRest(0), 100)
  assert.is(parseTimer('1000000h'), 2 ** 31 - 1)
})

const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}

test.run()
