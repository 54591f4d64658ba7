import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Hono } from 'hono'
import { streamSSE } from 'hono/streaming'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAddress } from '../../../../dataplane/server/listen/address.ts'
import {
  type Listener,
  type ListenerEnv,
  type ListenOptions,
  listen,
} from '../../../../dataplane/server/listen/listen.ts'
import { eventually } from '../../../support/eventually.ts'

const open: Listener[] = []
test.after.each(async () => {
  for (const listener of open.splice(0)) await listener.close(0)
})
const start = async (app: Hono<{ Bindings: ListenerEnv }>, address = '127.0.0.1:0', options?: ListenOptions) => {
  const listener = await listen(app.fetch as Hono['fetch'], address, options)
  open.push(listener)
  return listener
}
const createHello = () => new Hono<{ Bindings: ListenerEnv }>().get('/', (c) => c.text('hello'))

/** Collects everything that the server sends on a raw connection until it closes it. */
const sendRaw = async (port: number, text: string): Promise<{ socket: Socket; answer: Promise<string> }> => {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(text)
  const chunks: string[] = []
  socket.on('data', (chunk) => chunks.push(chunk.toString()))
  socket.on('error', () => {})
  // `once` would reject with the reset by which the server may end it.
  const answer = new Promise<string>((resolve) => socket.once('close', () => resolve(chunks.join(''))))
  return { socket, answer }
}

for (const [text, expected] of [
  ['127.0.0.1:8080', { host: '127.0.0.1', port: 8080 }],
  [':8081', { host: undefined, port: 8081 }],
  ['[::1]:80', { host: '::1', port: 80 }],
  ['localhost:0', { host: 'localhost', port: 0 }],
] as const)
  test(`the address ${text}`, () => assert.equal(parseAddress(text), expected))

for (const text of ['8080', '', ':', 'a:b', '1.2.3.4:65536', '::1:80', 'http://a:80', 'a b:80', ':-1', '[x]:80'])
  test(`${JSON.stringify(text)} is no address`, () => assert.throws(() => parseAddress(text), /not an address/))

test('it listens on any port, on loopback of either family, and on every address', async () => {
  for (const [address, url] of [
    ['127.0.0.1:0', /^http:\/\/127\.0\.0\.1:\d+$/],
    ['[::1]:0', /^http:\/\/\[::1\]:\d+$/],
    [':0', /^http:\/\/127\.0\.0\.1:\d+$/],
  ] as const) {
    const listener = await start(createHello(), address)
    assert.match(listener.url, url)
    assert.ok(listener.port > 0)
    assert.is(await (await fetch(listener.url)).text(), 'hello')
  }
})

test('a directly handled request does not reach the app', async () => {
  const { url } = await start(createHello(), '127.0.0.1:0', {
    direct({ url }, outgoing) {
      if (url !== '/direct') return false
      outgoing.end('directly')
      return true
    },
  })
  assert.is(await (await fetch(`${url}/direct`)).text(), 'directly')
  assert.is(await (await fetch(url)).text(), 'hello')
})

test('repeated headers reach a direct handler as both values, credentials too', async () => {
  const { port } = await start(createHello(), '127.0.0.1:0', {
    direct({ headers }, outgoing) {
      outgoing.end(headers.authorization)
      return true
    },
  })
  const request =
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n'
  const { answer } = await sendRaw(port, request)
  assert.match(await answer, /\r\n\r\n.*Bearer a, Bearer b/s)
})

test('every answer forbids guessing another content type', async () => {
  const app = createHello()
    .get('/page', (c) => c.html('<p>'))
    .get('/events', (c) => streamSSE(c, (stream) => stream.writeSSE({ data: 'one' })))
    .get('/wrong', () => {
      throw new Error('wrong')
    })
  const { url } = await start(app, '127.0.0.1:0', {
    direct({ url = '' }, outgoing) {
      const flat = ['content-type', 'application/json']
      if (url === '/list') outgoing.writeHead(404, flat).end('{}')
      else if (url === '/object') outgoing.writeHead(405, 'Not Here', { allow: 'GET' }).end()
      else if (url === '/implicit') outgoing.end('text')
      else return false
      assert.equal(flat, ['content-type', 'application/json'], 'the given object is unchanged')
      return true
    },
  })
  const paths = ['', 'page', 'events', 'wrong', 'missing', 'list', 'object', 'implicit']
  for (const path of paths) {
    const response = await fetch(`${url}/${path}`)
    await response.text()
    assert.is(response.headers.get('x-content-type-options'), 'nosniff', path)
  }
  const { headers } = await fetch(`${url}/object`)
  assert.is(headers.get('allow'), 'GET')
})

test('a taken port is named', async () => {
  const { port } = await start(createHello())
  try {
    await start(createHello(), `127.0.0.1:${port}`)
    assert.unreachable()
  } catch (error) {
    assert.is((error as Error).message, `port ${port} is taken: another process listens on 127.0.0.1:${port}`)
    assert.is((error as NodeJS.ErrnoException).code, 'EADDRINUSE')
  }
})

test('an error names the address of another machine', async () => {
  try {
    await start(createHello(), '192.0.2.1:0')
    assert.unreachable()
  } catch (error) {
    assert.match((error as Error).message, /can’t listen on 192\.0\.2\.1:0/)
  }
})

test('headers up to 64 KiB, then 431', async () => {
  const { port } = await start(createHello())
  const request = (bytes: number) =>
    sendRaw(port, `GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: ${'x'.repeat(bytes)}\r\n\r\n`)
  assert.match(await (await request(60 * 1024)).answer, /^HTTP\/1\.1 200 /)
  assert.match(await (await request(66 * 1024)).answer, /^HTTP\/1\.1 431 /)
})

test('a client that sends its headers byte by byte is cut off', async () => {
  const { port } = await start(createHello(), '127.0.0.1:0', { headersTimeoutMs: 200 })
  const { answer } = await sendRaw(port, 'GET / HTTP/1.1\r\nHost: a\r\n')
  assert.match(await answer, /^HTTP\/1\.1 408 /)
  const marking = { headersTimeoutMs: 200, refusalHeaders: () => [['X-Mark', '1']] as const }
  const marked = await start(createHello(), '127.0.0.1:0', marking)
  const late = await sendRaw(marked.port, 'GET / HTTP/1.1\r\nHost: a\r\n')
  assert.match(await late.answer, /^HTTP\/1\.1 408 .*\r\nX-Mark: 1\r\n/s)
})

test('connections are limited, and one address may have half of them', async () => {
  const { port } = await start(createHello(), undefined, { maxConnections: 8 })
  const sockets: Socket[] = []
  const tryConnect = async (localAddress: string) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress })
    sockets.push(socket)
    socket.on('error', () => {})
    socket.write('GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
    return new Promise<boolean>((resolve) => {
      socket.once('data', () => resolve(true))
      socket.once('close', () => resolve(false))
    })
  }
  const connectMany = async (address: string, count: number) =>
    (await Promise.all(Array.from({ length: count }, () => tryConnect(address)))).filter(Boolean).length

  assert.is(await connectMany('127.0.0.2', 6), 4, 'one address')
  assert.is(await connectMany('127.0.0.3', 3), 3, 'another one')
  assert.is(await connectMany('127.0.0.4', 3), 1, 'all together')
  // A closed connection makes room.
  sockets[0]?.destroy()
  await eventually('a slot is free', () => tryConnect('127.0.0.2'))
  for (const socket of sockets) socket.destroy()
})

test('closing finishes requests under way, accepts no new ones, and closes idle connections at once', async () => {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  let arrived = false
  const app = createHello().get('/slow', async (c) => {
    arrived = true
    await released
    return c.text('done')
  })
  const listener = await start(app)
  const idle = await sendRaw(listener.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  const slow = fetch(`${listener.url}/slow`)
  await eventually('the request has arrived', () => arrived)

  let closed = false
  const closing = listener.close(60_000).then(() => {
    closed = true
  })
  assert.match(await idle.answer, /hello/)
  await eventually('nothing new is accepted', () =>
    fetch(listener.url).then(
      () => false,
      () => true,
    ),
  )
  assert.not(closed)
  release()
  assert.is(await (await slow).text(), 'done')
  await closing
  await listener.close()
})

test('an unused open connection does not delay closing', async () => {
  const listener = await start(createHello())
  const unused = await sendRaw(listener.port, '')
  // This was answered on a later connection, so the server has accepted the unused one by now.
  assert.is(await (await fetch(listener.url)).text(), 'hello')
  await Promise.all([listener.close(60_000), unused.answer])
})

test('connections that do not end within the grace period are cut', async () => {
  let arrived = false
  const app = createHello().get('/never', () => {
    arrived = true
    return new Promise<Response>(() => {})
  })
  const listener = await start(app)
  const never = fetch(`${listener.url}/never`).then(
    () => 'answered',
    () => 'cut',
  )
  await eventually('the request has arrived', () => arrived)
  await listener.close(50)
  assert.is(await never, 'cut')
})

test('streams end when the listener closes', async () => {
  const app = createHello().get('/events', (c) =>
    streamSSE(c, async (stream) => {
      await stream.writeSSE({ data: 'one' })
      if (!c.env.closing.aborted) await once(c.env.closing, 'abort')
      await stream.writeSSE({ data: 'bye' })
    }),
  )
  const listener = await start(app)
  const response = await fetch(`${listener.url}/events`)
  const body = response.text()
  assert.not(listener.closing.aborted)
  await listener.close(60_000)
  assert.ok(listener.closing.aborted)
  assert.is(await body, 'data: one\n\ndata: bye\n\n')
})

test.run()
