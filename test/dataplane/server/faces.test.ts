import { once } from 'node:events'
import { connect } from 'node:net'
import { Hono } from 'hono'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../dataplane/gateway/mcp/rpc-text.ts'
import { readBody } from '../../../dataplane/server/body.ts'
import { allowOrigins } from '../../../dataplane/server/cross-origin.ts'
import { errorResponse, errorTable, PublicError, publicError } from '../../../dataplane/server/errors.ts'
import { guardHosts, type HostGuardOptions, hostNames } from '../../../dataplane/server/hosts.ts'
import { listenAdmin } from '../../../dataplane/server/listen/admin.ts'
import { later } from '../../../dataplane/server/listen/later.ts'
import { type Listener, listen } from '../../../dataplane/server/listen/listen.ts'
import { type RequestVariables, requestIds } from '../../../dataplane/server/request-id.ts'
import { recordLog } from '../../support/kept-log.ts'

test('an HTTP error has code, text, details and headers, and nothing else', async () => {
  const response = errorResponse(
    new PublicError('invalid_request', {
      details: [{ pointer: '/a', message: 'is required' }],
      headers: { 'Retry-After': '3' },
      cause: new Error('detail'),
    }),
  )
  assert.is(response.status, 400)
  assert.is(response.headers.get('retry-after'), '3')
  assert.is(response.headers.get('content-type'), 'application/json')
  assert.equal(await response.json(), {
    error: 'invalid_request',
    message: 'The request is not valid.',
    details: [{ pointer: '/a', message: 'is required' }],
  })
})

test('an unexpected error is internal for the caller and complete in the log', async () => {
  const { log, lines } = recordLog()
  for (const thrown of [new Error('secret detail'), 'secret detail', undefined, { code: 'secret detail' }]) {
    const text = await errorResponse(thrown, log).text()
    assert.match(text, /"internal"/)
    assert.not.match(text, /secret detail/)
    assert.not.match(errorText('1', publicError(thrown, log)), /secret detail/)
  }
  assert.is(lines.filter(({ level }) => level === 'error').length, 8)
  assert.match(JSON.stringify(lines[0]), /secret detail/)
})

test('a JSON-RPC error has code, text and details', () => {
  const parseError = (id: string | undefined, error: PublicError) => JSON.parse(errorText(id, error))
  assert.equal(parseError('"a"', new PublicError('method_not_found')), {
    jsonrpc: '2.0',
    id: 'a',
    error: { code: -32601, message: 'This method is not known here.' },
  })
  const unsupported = parseError(undefined, new PublicError('unsupported_version', { data: { supported: ['x'] } }))
  assert.equal([unsupported.id, unsupported.error.data], [null, { supported: ['x'] }])
  const failed = new PublicError('backend_failed')
  assert.is(failed.status, 200)
  assert.is(errorResponse(failed).status, 502, 'plain HTTP has no 200 for a failure')
})

test('error texts have no characters that a header or a log line could not have', () => {
  for (const [code, { http, text }] of Object.entries(errorTable)) {
    assert.match(code, /^[a-z_]+$/)
    assert.match(text, /^[^\n]+[.]$/)
    assert.ok(http === 200 || (http >= 400 && http < 600), code)
  }
})

test('the admin listener serves health, readiness and status', async () => {
  let ready: true | { reason: string } = { reason: 'no configuration yet' }
  let metrics: { text: string; contentType: string } | undefined
  await using listener = await disposable(
    listenAdmin('127.0.0.1:0', {
      status: () => ({ config: 'sha256:1' }),
      ready: () => ready,
      version: { version: '1', node: process.version },
      metrics: (accept) => metrics && { ...metrics, text: `${metrics.text}${accept}` },
    }),
  )
  const ask = (path: string, init?: RequestInit) => fetch(`${listener.url}${path}`, init)
  const alive = await ask('/healthz')
  assert.equal([alive.status, alive.headers.get('cache-control')], [200, 'no-store'])
  const unreachable = await ask('/readyz')
  assert.is(unreachable.status, 503)
  assert.equal(await unreachable.json(), { status: 'not ready', reason: 'no configuration yet' })
  ready = true
  assert.is((await ask('/readyz?verbose')).status, 200)
  const head = await ask('/readyz', { method: 'HEAD' })
  assert.equal([head.status, head.headers.get('content-length'), await head.text()], [200, '18', ''])
  assert.equal(await (await ask('/status')).json(), { config: 'sha256:1' })
  assert.equal(await (await ask('/version')).json(), { version: '1', node: process.version })
  assert.is((await ask('/metrics')).status, 404)
  metrics = { text: 'up 1\n', contentType: 'text/plain; version=0.0.4; charset=utf-8' }
  const scraped = await ask('/metrics', { headers: { accept: 'text/plain' } })
  assert.is(await scraped.text(), 'up 1\ntext/plain')
  assert.match(scraped.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
  for (const [path, method] of [
    ['/nothing', 'GET'],
    ['/readyz/', 'GET'],
    ['/constructor', 'GET'],
    ['/status', 'POST'],
  ] as const) {
    const refused = await ask(path, { method })
    assert.equal([refused.status, refused.headers.get('cache-control')], [404, 'no-store'], `${method} ${path}`)
    assert.equal(await refused.json(), { error: 'not_found', message: 'Not found.' })
  }
})

test('the target of a probe may be a whole URL', async () => {
  await using listener = await disposable(
    listenAdmin('127.0.0.1:0', { status: () => ({}), ready: () => true, version: { version: '1', node: '24' } }),
  )
  const socket = connect(listener.port, '127.0.0.1')
  socket.write(`GET ${listener.url}/readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
  const [answer] = await once(socket, 'data')
  assert.match(String(answer), /^HTTP\/1\.1 200 /)
  socket.destroy()
})

test('a failing status is an internal error, and probes still work', async () => {
  const { log, lines } = recordLog()
  await using listener = await disposable(
    listenAdmin('127.0.0.1:0', {
      status() {
        throw new Error('detail')
      },
      ready: () => true,
      version: { version: '1', node: '24' },
      log,
    }),
  )
  const failed = await fetch(`${listener.url}/status`)
  assert.is(failed.status, 500)
  assert.not.match(await failed.text(), /detail/)
  assert.is(lines.length, 1)
  assert.is((await fetch(`${listener.url}/healthz`)).status, 200)
})

test('a lazy app is made once, by the first request', async () => {
  let createdCount = 0
  const answer = later(async () => {
    createdCount++
    return new Hono().get('/', (c) => c.text('here'))
  })
  assert.is(createdCount, 0)
  const ask = async () => (await answer(new Request('http://a/'))).text()
  assert.equal(await Promise.all([ask(), ask()]), ['here', 'here'])
  assert.is(createdCount, 1)
})

test('a lazy app that could not be made is made by the next request', async () => {
  const recorder = recordLog()
  let createdCount = 0
  const answer = later(async () => {
    createdCount++
    await Promise.resolve()
    if (createdCount === 1) throw new Error('too many open files')
    return new Hono().get('/', (c) => c.text('here'))
  }, recorder.log)
  const ask = () => answer(new Request('http://a/'))
  for (const failed of await Promise.all([ask(), ask()])) {
    assert.is(failed.status, 500)
    assert.is(((await failed.json()) as { error: string }).error, 'internal')
  }
  assert.is(createdCount, 1)
  assert.match(recorder.text(), /too many open files/)
  const answers = await Promise.all([ask(), ask()])
  assert.equal(await Promise.all(answers.map((response) => response.text())), ['here', 'here'])
  assert.is(createdCount, 2)
})

async function disposable(opening: Promise<Listener>) {
  const listener = await opening
  return Object.assign(listener, { [Symbol.asyncDispose]: () => listener.close() })
}

const createGuarded = (options: Partial<HostGuardOptions> = {}) => {
  const app = new Hono()
  app.use(
    guardHosts({
      allowed: () => hostNames(['https://Gateway.example:8443/mcp'], ['svc', 'demo.ns.svc:80']),
      ...options,
    }),
  )
  app.onError((error) => errorResponse(error))
  return app.all('/', (c) => c.text('in'))
}
for (const [host, origin, status] of [
  ['gateway.example', undefined, 200],
  ['gateway.example:8443', undefined, 200],
  ['GATEWAY.example.', undefined, 200],
  ['demo.ns.svc', undefined, 200],
  ['svc:4483', undefined, 200],
  ['localhost:4483', undefined, 200],
  ['127.0.0.1:4483', undefined, 200],
  ['[::1]:4483', undefined, 200],
  ['10.1.2.3', undefined, 200],
  ['evil.example', undefined, 403],
  ['evil.example:4483', undefined, 403],
  ['gateway.example.evil.example', undefined, 403],
  ['localhost.evil.example', undefined, 403],
  ['127.0.0.1.evil.example', undefined, 403],
  ['', undefined, 403],
  ['a b', undefined, 403],
  ['gateway.example@evil.example', undefined, 403],
  ['evil.example#gateway.example', undefined, 403],
  ['127.0.0.1:4483', 'http://localhost:6274', 200],
  ['127.0.0.1:4483', 'http://127.0.0.1:6274', 200],
  ['10.1.2.3:4483', 'http://10.1.2.3:4483', 200],
  ['gateway.example', 'https://gateway.example', 200],
  ['gateway.example', 'https://evil.example', 403],
  ['127.0.0.1:4483', 'http://10.9.9.9', 403],
  ['127.0.0.1:4483', 'null', 403],
  ['127.0.0.1:4483', 'file://', 403],
  ['127.0.0.1:4483', '', 403],
  ['127.0.0.1:4483', 'rubbish', 403],
] as const)
  test(`Host ${JSON.stringify(host)}, Origin ${origin}: ${status}`, async () => {
    const headers = { host, ...(origin === undefined ? {} : { origin }) }
    const response = await createGuarded().request('/', { headers })
    assert.is(response.status, status)
    if (status === 403) assert.is(((await response.json()) as { error: string }).error, 'forbidden_host')
  })

test('all hosts are accepted if configured, and any origin for public routes', async () => {
  const headers = { host: 'evil.example', origin: 'https://evil.example' }
  assert.is((await createGuarded({ allowed: () => hostNames([], ['*']) }).request('/', { headers })).status, 200)
  assert.is((await createGuarded({ origins: 'any' }).request('/', { headers })).status, 403)
  assert.is(
    (await createGuarded({ origins: 'any' }).request('/', { headers: { ...headers, host: 'svc' } })).status,
    200,
  )
})

test('bodies are read whole up to the limit, whatever Content-Length says', async () => {
  const app = new Hono().post('/', async (c) => c.json({ size: (await readBody(c, 1000)).length }))
  app.onError((error) => errorResponse(error))
  const listener = await listen(app.fetch, '127.0.0.1:0')
  const post = (body: NonNullable<RequestInit['body']>, headers = {}) =>
    fetch(listener.url, { method: 'POST', body, headers, duplex: 'half' } as RequestInit)
  const streamBody = (size: number) =>
    new ReadableStream({
      start(controller) {
        for (let at = 0; at < size; at += 100) controller.enqueue(new Uint8Array(Math.min(100, size - at)))
        controller.close()
      },
    })
  for (const size of [0, 1, 1000])
    for (const body of ['x'.repeat(size), streamBody(size)]) assert.equal(await (await post(body)).json(), { size })
  for (const body of ['x'.repeat(1001), streamBody(1001), 'x'.repeat(2_000_000), streamBody(2_000_000)]) {
    const response = await post(body)
    assert.is(response.status, 413)
    assert.is(((await response.json()) as { error: string }).error, 'too_large')
  }
  assert.equal(await (await post('after it')).json(), { size: 8 })

  // The announced length is refused before the body is sent.
  const socket = connect(listener.port, '127.0.0.1')
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  assert.match(answer.toString(), /^HTTP\/1\.1 413 /)
  socket.destroy()

  assert.equal(await (await app.request('/', { method: 'POST', body: 'without a socket' })).json(), { size: 16 })
  assert.is((await app.request('/', { method: 'POST', body: 'x'.repeat(1001) })).status, 413)
  await listener.close(0)
})

test('each request has an id, in the answer and in its log lines', async () => {
  const { log, lines } = recordLog()
  const app = new Hono<{ Variables: RequestVariables }>()
  app.use(requestIds(log))
  app.get('/', (c) => {
    c.var.log().info('a line')
    return c.text('hello')
  })
  app.get('/fails', () => {
    throw new Error('detail')
  })
  app.onError((error, c) => errorResponse(error, c.var.log()))
  const answer = await app.request('/', { headers: { 'x-request-id': 'abc-1' } })
  assert.is(answer.headers.get('x-request-id'), 'abc-1')
  assert.is(lines[0]?.['requestId'], 'abc-1')
  for (const bad of ['a b', 'x'.repeat(65), 'a"b']) {
    const created = await app.request('/', { headers: { 'x-request-id': bad } })
    assert.match(created.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/)
  }
  const failed = await app.request('/fails')
  assert.is(failed.status, 500)
  assert.is(lines.at(-1)?.['requestId'], failed.headers.get('x-request-id'))
})

test('pages of other origins may read public answers', async () => {
  const app = new Hono()
  app.use(allowOrigins(['https://a.example']))
  app.get('/', (c) => c.text('hello'))
  app.get('/fails', () => {
    throw new PublicError('not_found')
  })
  app.onError((error) => errorResponse(error))
  const requestFrom = (origin: string, path = '/', method = 'GET') =>
    app.request(path, { method, headers: { origin, 'access-control-request-method': 'GET' } })
  assert.is((await requestFrom('https://a.example')).headers.get('access-control-allow-origin'), 'https://a.example')
  assert.is((await requestFrom('https://b.example')).headers.get('access-control-allow-origin'), null)
  const failed = await requestFrom('https://a.example', '/fails')
  assert.is(failed.status, 404)
  assert.is(failed.headers.get('access-control-allow-origin'), 'https://a.example')
  const preflight = await requestFrom('https://a.example', '/', 'OPTIONS')
  assert.is(preflight.status, 204)
  assert.is(preflight.headers.get('access-control-allow-methods'), 'GET,HEAD')
  assert.is(preflight.headers.get('access-control-allow-credentials'), null)
})

test.run()
