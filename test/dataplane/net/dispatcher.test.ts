import { glob, readFile, rename, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createRawServer, type LookupFunction } from 'node:net'
import { join } from 'node:path'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { type Dispatcher, errors, request } from 'undici'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createBoundedAgent } from '../../../dataplane/net/bounded-agent.ts'
import { AddressRefused, type ConnectOptions, createDispatcher, guardedLookup } from '../../../dataplane/net/connect.ts'
import { createGuardedFetch } from '../../../dataplane/net/guarded-fetch.ts'
import { eventually } from '../../support/eventually.ts'
import { createAuthority } from '../../support/network/certificates.ts'

const ROOT = join(import.meta.dirname, '../../..')
const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const listenOn = async (server: Server, host = '127.0.0.1'): Promise<number> => {
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  cleanups.push(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}
const serve = async (listener: RequestListener) => {
  const server = createServer(listener)
  let connections = 0
  server.on('connection', () => connections++)
  return { port: await listenOn(server), connections: () => connections }
}
const makeDispatcher = (origin: string, options: ConnectOptions = {}): Dispatcher => {
  const dispatcher = createDispatcher({ origin, ...options })
  cleanups.push(() => dispatcher.destroy())
  return dispatcher
}
const get = async (origin: string, options: ConnectOptions = {}) => {
  const { statusCode, body } = await request(origin, { dispatcher: makeDispatcher(origin, options) })
  return { status: statusCode, text: await body.text() }
}
const failure = (promise: Promise<unknown>): Promise<Error & { code?: string }> =>
  promise.then(
    () => assert.unreachable('it was let through') as never,
    (error) => error,
  )

test('headers and trailers without end cost one error, however many come at once', async () => {
  const { prototype } = errors.HeadersOverflowError
  let createdCount = 0
  const set = function (this: object, value: string) {
    createdCount++
    Object.defineProperty(this, 'code', { value, writable: true })
  }
  Object.defineProperty(prototype, 'code', { configurable: true, set })
  cleanups.push(() => Reflect.deleteProperty(prototype, 'code'))
  const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n'
  for (const beginning of [head, `${head}\r\n0\r\n`]) {
    const server = createRawServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => socket.write(`${beginning}${'a: b\r\n'.repeat(1_000_000)}`))
      cleanups.push(() => socket.destroy())
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => server.close())
    const { port } = server.address() as AddressInfo
    createdCount = 0
    const error = await failure(get(`http://127.0.0.1:${port}`, { allowPrivateIP: true }))
    assert.is(error.code, 'UND_ERR_HEADERS_OVERFLOW')
    assert.is(createdCount, 1)
  }
})

test('an idle connection is closed before servers close it that do not say when they would', async () => {
  const closedBy: string[] = []
  const server = createRawServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'))
    socket.on('end', () => closedBy.push('client'))
    cleanups.push(() => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => server.close())
  const { port } = server.address() as AddressInfo
  assert.is((await get(`http://127.0.0.1:${port}`, { allowPrivateIP: true })).text, 'ok')
  await eventually('the client closes it', () => closedBy.length === 1, 20_000)
})

/** Serves raw bytes, and ends the connection after them. */
async function serveBytes(answerTo: (times: number) => string): Promise<string> {
  let times = 0
  const server = createRawServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', () => socket.write(answerTo(++times)))
    cleanups.push(() => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('informational answers before an answer are limited, by their number and by their headers', async () => {
  const interim = 'HTTP/1.1 103 Early Hints\r\n\r\n'
  const good = 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood'
  // Each exchange counts anew, on one connection too.
  const origin = await serveBytes(() => interim.repeat(800) + good)
  const dispatcher = createDispatcher({ origin, allowPrivateIP: true, connections: 1 })
  cleanups.push(() => dispatcher.destroy())
  for (let times = 0; times < 3; times++) assert.is(await (await request(origin, { dispatcher })).body.text(), 'good')
  const large = `HTTP/1.1 103 Early Hints\r\na: ${'x'.repeat(10_000)}\r\n\r\n`
  for (const flood of [interim.repeat(1_100), large.repeat(8)]) {
    const url = await serveBytes(() => flood + good)
    for (const made of [createDispatcher({ origin: url, allowPrivateIP: true }), createBoundedAgent()]) {
      const error = await failure(request(url, { dispatcher: made }))
      assert.is(error.code, 'UND_ERR_HEADERS_OVERFLOW')
      await made.destroy()
    }
  }
})

test('what is no body in an answer is limited, however small its chunks are', async () => {
  const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
  const small = await serveBytes(() => `${chunked}${'1\r\nx\r\n'.repeat(80_000)}0\r\n\r\n`)
  assert.is((await get(small, { allowPrivateIP: true })).text.length, 80_000)
  const floods = {
    UND_ERR_HEADERS_OVERFLOW: [`HTTP/1.1 200 ${'x'.repeat(1_000_000)}\r\n\r\n`],
    UND_ERR_RES_EXCEEDED_MAX_SIZE: [
      `${chunked}1;${'a=b;'.repeat(1_000_000)}`,
      chunked + '1\r\nx\r\n'.repeat(1_000_000),
    ],
  }
  for (const [code, heads] of Object.entries(floods))
    for (const head of heads) {
      const url = await serveBytes(() => head)
      assert.is((await failure(get(url, { allowPrivateIP: true }))).code, code)
    }
})

test('each request of the data plane, the operator and the console goes through a dispatcher with these limits', async () => {
  for await (const file of glob('{dataplane,operator,console}/**/*.ts', { cwd: ROOT })) {
    const text = await readFile(join(ROOT, file), 'utf8')
    const name = /import \{[^}]*\brequest(?: as (\w+))?\b[^}]*\} from 'undici'/.exec(text)
    if (name === null) continue
    for (const { index } of text.matchAll(new RegExp(`\\b${name[1] ?? 'request'}\\(`, 'g')))
      assert.match(text.slice(index, index + 700), /dispatcher/, `${file} at ${index}`)
  }
})

test('a connection is used again, and redirects are not followed', async () => {
  const { port, connections } = await serve((_request, response) =>
    response.writeHead(302, { location: 'http://169.254.169.254/' }).end('moved'),
  )
  const origin = `http://127.0.0.1:${port}`
  const dispatcher = makeDispatcher(origin, { allowPrivateIP: true })
  for (let index = 0; index < 20; index++) {
    const { statusCode, body } = await request(`${origin}/${index}`, { dispatcher })
    assert.is(statusCode, 302)
    await body.dump()
  }
  // More than one: the pool may open another while the first ends its answer, or after it was idle for long.
  assert.ok(connections() < 10, `${connections()} connections`)
})

test('loopback and private addresses need a permission; metadata addresses never get one', async () => {
  const { port, connections } = await serve((_request, response) => response.end('in'))
  for (const [host, options, let_in] of [
    ['127.0.0.1', {}, false],
    ['127.0.0.1', { allowLoopback: true }, true],
    ['127.0.0.1', { allowPrivateIP: true }, true],
    ['localhost', {}, false],
    ['localhost', { allowLoopback: true }, true],
    ['[::ffff:127.0.0.1]', {}, false],
    ['[::ffff:127.0.0.1]', { allowLoopback: true }, true],
    ['0x7f.1', {}, false],
    ['2130706433', {}, false],
    ['10.0.0.1', { allowLoopback: true }, false],
    ['169.254.169.254', { allowPrivateIP: true }, false],
    ['[fd00:ec2::254]', { allowPrivateIP: true }, false],
    ['[::ffff:169.254.169.254]', { allowPrivateIP: true }, false],
    ['0.0.0.0', { allowPrivateIP: true }, false],
    ['[::]', { allowPrivateIP: true }, false],
  ] as const) {
    const origin = `http://${host}:${port}`
    if (let_in) assert.is((await get(origin, options)).text, 'in', host)
    else {
      const error = await failure(get(origin, options))
      assert.instance(error, AddressRefused, `${host}: ${error}`)
      assert.is(error.code, 'ERR_ADDRESS_REFUSED')
    }
  }
  assert.is(connections(), 4, 'a refused address was not even connected to')
})

const resolve = (addresses: readonly string[], options: ConnectOptions, all: boolean) =>
  new Promise((done) => {
    const answers = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    const lookup = ((_name, _options, callback) => callback(null, answers)) as LookupFunction
    guardedLookup(options, lookup)('name.example', { all }, (error, ...found) => done(error ?? found))
  })

test('all addresses of a name are checked, and only checked ones are connected to', async () => {
  assert.equal(await resolve(['8.8.8.8', '1.1.1.1'], {}, true), [
    [
      { address: '8.8.8.8', family: 4 },
      { address: '1.1.1.1', family: 4 },
    ],
  ])
  assert.equal(await resolve(['8.8.8.8', '1.1.1.1'], {}, false), ['8.8.8.8', 4])
  for (const bad of ['10.0.0.1', '127.0.0.1', '::1', '::ffff:10.0.0.1', '169.254.169.254', 'fe80::1'])
    for (const all of [true, false])
      for (const addresses of [[bad], ['8.8.8.8', bad], [bad, '8.8.8.8']])
        assert.instance(await resolve(addresses, {}, all), AddressRefused, `${addresses}`)
  assert.instance(await resolve(['10.0.0.1', '169.254.169.254'], { allowPrivateIP: true }, true), AddressRefused)
  assert.equal(await resolve(['10.0.0.1'], { allowPrivateIP: true }, false), ['10.0.0.1', 4])
  assert.match(String(await resolve([], {}, false)), /no address/)
})

test('an unknown name is an error of its own', async () => {
  const error = await failure(get('http://does-not-exist.invalid'))
  assert.match(String(error.code), /ENOTFOUND|EAI_AGAIN/)
})

test('a private CA is trusted besides the others, and followed as it changes', async () => {
  const [first, second] = [await createAuthority(), await createAuthority()]
  cleanups.push(first.remove, second.remove)
  const server = createTlsServer({ key: first.key, cert: first.cert }, (_request, response) => response.end('in'))
  const port = await listenOn(server)
  const origin = `https://localhost:${port}`

  assert.match(String((await failure(get(origin, { allowLoopback: true }))).code), /UNABLE_TO|SELF_SIGNED/)
  const file = join(first.directory, 'bundle.pem')
  await writeFile(file, second.ca)
  const dispatcher = makeDispatcher(origin, { allowLoopback: true, caBundleFile: file })
  const attempt = () => request(origin, { dispatcher }).then(async ({ body }) => body.text())
  assert.match(String((await failure(attempt())).code), /UNABLE_TO|SELF_SIGNED|CERT/)
  await writeFile(`${file}.tmp`, (await readFile(file, 'utf8')) + first.ca)
  await rename(`${file}.tmp`, file)
  await eventually('the new bundle is used', () =>
    attempt().then(
      (text) => text === 'in',
      () => false,
    ),
  )
})

test('a missing or invalid CA bundle is an error, not a crash', async () => {
  const { port } = await serve((_request, response) => response.end('in'))
  const origin = `https://127.0.0.1:${port}`
  const error = await failure(get(origin, { allowLoopback: true, caBundleFile: '/nowhere/ca.pem' }))
  assert.match(error.message, /\/nowhere\/ca\.pem can’t be read \(ENOENT\)/)
})

test('guarded fetch: bounds of size and time, no redirects, addresses checked', async () => {
  const { port } = await serve((request, response) => {
    if (request.url === '/big') response.end('x'.repeat(2000))
    else if (request.url === '/slow') response.write('x')
    else if (request.url === '/moved') response.writeHead(302, { location: '/' }).end()
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(request.headers))
  })
  const origin = `http://127.0.0.1:${port}`
  const guardedFetch = createGuardedFetch({ allowLoopback: true, maxBytes: 1000 })
  const hasty = createGuardedFetch({ allowLoopback: true, timeoutMs: 300 })
  cleanups.push(() => Promise.all([guardedFetch.close(), hasty.close()]))
  const answer = await guardedFetch(`${origin}/`, { authorization: 'Bearer x' })
  assert.is(answer.status, 200)
  assert.is(JSON.parse(answer.text).authorization, 'Bearer x')
  assert.is((await guardedFetch(`${origin}/moved`)).status, 302)
  assert.match((await failure(guardedFetch(`${origin}/big`))).message, /larger than 1000 bytes/)
  assert.is((await failure(hasty(`${origin}/slow`))).name, 'TimeoutError')
  const strict = createGuardedFetch({})
  cleanups.push(() => strict.close())
  assert.instance(await failure(strict(`${origin}/`)), AddressRefused)
})

const encoders = {
  gzip: gzipSync,
  'x-gzip': gzipSync,
  GZIP: gzipSync,
  deflate: deflateSync,
  'deflate ': deflateRawSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
  identity: (bytes: Buffer) => bytes,
} as const

test('small documents are requested with gzip, and decoded in any encoding, within their bounds', async () => {
  let sent: { encoding: string; body: Buffer } = { encoding: '', body: Buffer.alloc(0) }
  let acceptEncoding: string | string[] | undefined
  const { port } = await serve((request, response) => {
    acceptEncoding = request.headers['accept-encoding']
    response.writeHead(200, { 'content-encoding': sent.encoding }).end(sent.body)
  })
  const guardedFetch = createGuardedFetch({ allowLoopback: true, maxBytes: 10_000, timeoutMs: 60_000 })
  cleanups.push(() => guardedFetch.close())
  const get = () => guardedFetch(`http://127.0.0.1:${port}/`)
  const text = JSON.stringify({ issuer: 'https://x.example', words: 'ä'.repeat(1_000) })
  const marked = Buffer.from(`\uFEFF${text}`)
  for (const [encoding, encode] of Object.entries(encoders)) {
    sent = { encoding, body: encode(marked) }
    assert.is((await get()).text, text, encoding)
    // A bomb is small while compressed.
    sent = { encoding, body: encode(Buffer.alloc(20_000_000)) }
    if (encoding !== 'identity') assert.ok(sent.body.length < 100_000)
    assert.match((await failure(get())).message, 'larger than 10000 bytes', encoding)
  }
  assert.is(acceptEncoding, 'gzip')
  sent = { encoding: 'gzip, br', body: brotliCompressSync(gzipSync(marked)) }
  assert.is((await get()).text, text)
  sent = { encoding: 'gzip', body: Buffer.alloc(0) }
  assert.is((await get()).text, '')
  // Servers also send other values there; like browsers, the gateway reads such a body unchanged.
  sent = { encoding: 'utf-8', body: marked }
  assert.is((await get()).text, text)
  for (const [encoding, body] of [
    ['gzip', marked],
    ['gzip', gzipSync(marked).subarray(0, 40)],
    ['br', brotliCompressSync(marked).subarray(0, 20)],
    ['zstd', marked],
    ['gzip, gzip, gzip', gzipSync(gzipSync(gzipSync(marked)))],
  ] as const) {
    sent = { encoding, body }
    assert.is((await failure(get())).name, 'UndecodableBody', encoding)
  }
})

test.run()
