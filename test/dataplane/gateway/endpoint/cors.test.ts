/** Tests clients in web pages of other hosts: the CORS headers that browsers get, and that they admit nobody else. */
import { createServer, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { Browser } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkGateway } from '../../../../dataplane/config/check/gateway.ts'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { directEndpoint } from '../../../../dataplane/gateway/endpoint/serve.ts'
import { CrossOrigin } from '../../../../dataplane/gateway/request/cross-origin.ts'
import { listen } from '../../../../dataplane/server/listen/listen.ts'
import { startBrowser } from '../../../support/browser.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { GuardedGateway } from '../../../support/gateway/guarded.ts'
import { BASE_HEADERS, modern, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

const PAGE = 'https://app.example'
const other = { origin: 'https://evil.example' }
const ours = { origin: PAGE }

let server: McpTestServer
let gateway: GatewayUnderTest
let proxy: GatewayUnderTest
let browser: Browser
let config: TestConfig
test.before(async () => {
  server = await startMcpServer({ name: 'd' })
  config = {
    backends: [{ name: 'd', url: server.url }],
    cors: { origins: [PAGE] },
    passthroughHeaders: ['X-Tenant'],
    allowedHosts: ['tools.example'],
  }
  gateway = await startGateway(config)
  proxy = await startGateway({ ...config, role: 'proxy', cors: { origins: ['*'] } })
  browser = await startBrowser()
})
test.after(async () => {
  await browser.close()
  await Promise.all([gateway.close(), proxy.close()])
  await server.close()
})

const ALL = [
  ...['accept', 'authorization', 'content-type', 'last-event-id', 'mcp-session-id', 'mcp-protocol-version'],
  ...['mcp-method', 'mcp-name', 'mcp-param-region', 'traceparent', 'x-tenant'],
]

const ask = (url: string, headers: Record<string, string>) =>
  fetch(url, {
    method: 'OPTIONS',
    headers: {
      'access-control-request-method': 'POST',
      'access-control-request-headers': [...ALL, 'x-unknown'].join(','),
      ...headers,
    },
  })

const words = (headers: Headers, name: string): readonly string[] =>
  (headers.get(name) ?? '').split(',').map((word) => word.trim().toLowerCase())

const readable = ({ headers }: { readonly headers: Headers }) => headers.get('access-control-allow-origin')

test('a browser may send the headers of both eras, and those that are passed on', async () => {
  for (const [one, origin] of [
    [gateway, PAGE],
    [proxy, '*'],
  ] as const) {
    const { status, headers } = await ask(one.url, ours)
    assert.is(status, 204)
    assert.is(headers.get('access-control-allow-origin'), origin)
    assert.is(headers.get('access-control-allow-credentials'), null)
    for (const method of ['post', 'get', 'delete'])
      assert.ok(words(headers, 'access-control-allow-methods').includes(method))
    const allowed = words(headers, 'access-control-allow-headers')
    assert.equal(
      ALL.filter((name) => !allowed.includes(name)),
      [],
    )
    assert.not(allowed.includes('x-unknown'))
    assert.is(headers.get('vary'), one === gateway ? 'Origin' : null)
  }
})

test('pages of other origins are refused, and so is a foreign Host whatever the origin', async () => {
  const { headers } = await ask(gateway.url, other)
  assert.is(headers.get('access-control-allow-origin'), null)
  assert.is(headers.get('access-control-allow-headers'), null)
  const refused = await postModern(gateway.url, 'server/discover', {}, other)
  assert.is(refused.status, 403)
  assert.is(readable(refused), null)
  assert.is(refused.headers.get('vary'), 'Origin')
  for (const origin of ['null', 'http://app.example', 'https://app.example:8443', 'https://app.example.evil.example'])
    assert.is((await postModern(gateway.url, 'server/discover', {}, { origin })).status, 403, origin)
})

test('answers of both eras can be read, with the id of the session', async () => {
  for (const [one, origin, prefix] of [
    [gateway, PAGE, 'd_'],
    [proxy, '*', ''],
  ] as const) {
    const params = { name: `${prefix}echo`, arguments: { message: 'x' } }
    const modern = await postModern(one.url, 'tools/call', params, ours)
    const opened = await post(
      one.url,
      rpc('initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'page', version: '1' },
      }),
      ours,
    )
    const session = await openSession(one.url, ours)
    const called = await post(one.url, rpc('tools/call', params), session)
    const noted = await post(one.url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', session)
    const stream = await fetch(one.url, { headers: { ...BASE_HEADERS, ...session } })
    const ended = await fetch(one.url, { method: 'DELETE', headers: session })
    await stream.body?.cancel()
    for (const [name, answer] of Object.entries({ modern, opened, called, noted, stream, ended })) {
      assert.ok(answer.status < 300, name)
      assert.is(readable(answer), origin, name)
      const exposed = words(answer.headers, 'access-control-expose-headers')
      for (const header of ['mcp-session-id', 'www-authenticate']) assert.ok(exposed.includes(header), name)
    }
  }
})

interface RequestParts {
  readonly method?: string
  readonly path?: string
  readonly host?: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a request as a page of `origin`; `fetch` can't set the host. */
function askFrom(
  base: string,
  origin: string,
  { method = 'POST', path = '/mcp', host, body = '', headers }: RequestParts,
) {
  const { hostname, port } = new URL(base)
  const sent = { ...BASE_HEADERS, ...headers, origin, ...(host === undefined ? {} : { host }) }
  return new Promise<IncomingMessage>((resolve, reject) => {
    const outgoing = request({ hostname, port, path, method, headers: sent }, (answer) => {
      answer.resume()
      resolve(answer)
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

const elsewhere = ['/mcp/', '/mcp/x', '/', '/sse', '/register', '/authorize']
/** Every request that is answered without a call, with its status. */
const refused: readonly (readonly [number, RequestParts])[] = [
  [404, { body: rpc('ping'), headers: { 'mcp-session-id': 'none' } }],
  [400, { body: rpc('tools/list') }],
  [400, { body: '{' }],
  [400, { ...modern('tools/list'), headers: { 'mcp-protocol-version': '1999-01-01' } }],
  [404, modern('none/such')],
  [405, { method: 'PUT' }],
  [413, { body: '"'.padEnd(9 * 1024 * 1024) }],
  [415, { ...modern('tools/list'), headers: { ...modern('tools/list').headers, 'content-type': 'text/plain' } }],
  [406, { ...modern('tools/list'), headers: { ...modern('tools/list').headers, accept: 'text/html' } }],
  [403, { body: rpc('ping'), host: 'evil.example' }],
  [403, { path: '/', host: 'evil.example' }],
  ...elsewhere.map((path): [number, RequestParts] => [404, { path, ...modern('tools/list') }]),
  ...elsewhere.map((path): [number, RequestParts] => [
    path === '/' ? 200 : 404,
    { path, method: 'GET', headers: { accept: '*/*' } },
  ]),
]

test('errors can be read by pages of allowed origins, and by no others', async () => {
  for (const [one, origin] of [
    [gateway, PAGE],
    [proxy, '*'],
  ] as const)
    for (const [status, request] of refused) {
      const what = JSON.stringify({ ...request, body: request.body?.slice(0, 80) })
      const answer = await askFrom(one.base, PAGE, request)
      assert.is(answer.statusCode, status, what)
      assert.is(answer.headers['access-control-allow-origin'], origin, what)
      assert.match(answer.headers['access-control-expose-headers'] ?? '', /retry-after/i, what)
      if (one === proxy) continue
      assert.match(answer.headers.vary ?? '', 'Origin', what)
      const foreign = await askFrom(one.base, other.origin, request)
      assert.is(foreign.headers['access-control-allow-origin'], undefined, what)
    }
  for (const path of elsewhere) {
    const url = gateway.base + path
    assert.equal([(await ask(url, ours)).status, readable(await ask(url, ours))], [204, PAGE], path)
    assert.is(readable(await ask(url, other)), null, path)
  }
})

test('a gateway that has no configuration yet says so to pages, too', async () => {
  const early = await listen(() => new Response(), '127.0.0.1:0', {
    direct: directEndpoint(() => undefined, CrossOrigin.of({ cors: { origins: [PAGE] } })),
  })
  try {
    for (const path of ['/mcp', '/oauth/token']) {
      const url = early.url + path
      const answer = await fetch(url, { method: 'POST', headers: ours })
      assert.equal([answer.status, readable(answer), answer.headers.get('retry-after')], [503, PAGE, '1'])
      assert.is(readable(await fetch(url, { headers: other })), null)
      assert.equal([(await ask(url, ours)).status, readable(await ask(url, ours))], [204, PAGE])
    }
  } finally {
    await early.close()
  }
})

test('a page can read 401, 403 and the metadata', async () => {
  const policies = ['permit(principal, action, resource) when { principal.claim_team == "blue" };']
  const guarded = await GuardedGateway.start(
    config.backends,
    { policies },
    { cors: { origins: [PAGE] }, rateLimiting: { shared: { maxTokens: 1, refillPeriod: '1h' } } },
  )
  try {
    const unknown = await postModern(guarded.url, 'server/discover', {}, ours)
    assert.is(unknown.status, 401)
    assert.match(unknown.headers.get('www-authenticate') ?? '', /resource_metadata="/)
    const call = { name: 'd_echo', arguments: { message: 'x' } }
    const red = { ...ours, ...(await guarded.bearer({ sub: 'a', team: 'red' })) }
    const denied = await postModern(guarded.url, 'tools/call', call, red)
    assert.is(denied.status, 403)
    const { status, headers } = await ask(guarded.url, ours)
    assert.is(status, 204)
    const metadata = await fetch(`${guarded.gateway.base}/.well-known/oauth-protected-resource/mcp`, { headers: ours })
    const none = await fetch(`${guarded.gateway.base}/.well-known/oauth-authorization-server`, { headers: ours })
    assert.equal([metadata.status, none.status], [200, 404])
    assert.equal([unknown, denied, { headers }, metadata, none].map(readable), [PAGE, PAGE, PAGE, '*', '*'])
  } finally {
    await guarded.close()
  }
})

test('a page can read a rate limit’s refusal', async () => {
  const limited = await startGateway({
    ...config,
    role: 'proxy',
    rateLimiting: { shared: { maxTokens: 1, refillPeriod: '1h' } },
  })
  try {
    const calls = [0, 1].map(() =>
      postModern(limited.url, 'tools/call', { name: 'echo', arguments: { message: '' } }, ours),
    )
    const late = (await Promise.all(calls)).find(({ status }) => status === 429)
    assert.ok(late)
    assert.is(readable(late), PAGE)
    assert.ok(words(late.headers, 'access-control-expose-headers').includes('retry-after'))
  } finally {
    await limited.close()
  }
})

test('without cors there are no CORS headers, and OPTIONS is not allowed', async () => {
  const plain = await startGateway({ ...config, cors: {} })
  try {
    assert.is((await ask(plain.url, { origin: 'http://localhost' })).status, 405)
    const { headers, status } = await postModern(plain.url, 'server/discover', {}, { origin: 'http://localhost' })
    assert.is(status, 200)
    assert.is(headers.get('access-control-allow-origin'), null)
    assert.is(headers.get('vary'), null)
    assert.is((await postModern(plain.url, 'server/discover', {}, ours)).status, 403)
    await plain.configure(config)
    await eventually('the page may call', async () => (await ask(plain.url, ours)).status === 204)
  } finally {
    await plain.close()
  }
})

test('a page in Chromium opens a session and calls a tool; a page of another origin can’t', async () => {
  const pages = createServer((_, res) => void res.writeHead(200, { 'content-type': 'text/html' }).end('<p>')).listen(0)
  const { port } = pages.address() as AddressInfo
  const open = await startGateway({ ...config, cors: { origins: [`http://127.0.0.1:${port}`] } })
  const runClient = async (host: string): Promise<string> => {
    const page = await browser.newPage()
    try {
      await page.goto(`http://${host}:${port}`)
      return await page.evaluate(
        async (url, base, initialize, call) => {
          const send = (body: string, more: Record<string, string>) =>
            fetch(url, { method: 'POST', body, headers: { ...base, ...more } })
          try {
            const opened = await send(initialize, { authorization: 'Bearer x', 'mcp-protocol-version': '2025-11-25' })
            const session = opened.headers.get('mcp-session-id') ?? 'hidden'
            return await (await send(call, { 'mcp-session-id': session })).text()
          } catch (error) {
            return String(error)
          }
        },
        open.url,
        BASE_HEADERS,
        rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'p', version: '1' } }),
        rpc('tools/call', { name: 'd_echo', arguments: { message: 'from a page' } }),
      )
    } finally {
      await page.close()
    }
  }
  try {
    assert.match(await runClient('127.0.0.1'), 'from a page')
    assert.match(await runClient('localhost'), 'Failed to fetch')
  } finally {
    await open.close()
    pages.close()
  }
})

test('an origin that no browser sends is refused in the configuration', () => {
  const config: GatewayConfig = {
    name: 'x',
    namespace: 'x',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    backends: [],
    cors: {
      origins: [
        ...['*', 'https://a.example', 'http://localhost:6274', 'chrome-extension://abcdefgh', 'vscode-webview://x1'],
        ...[
          'https://a.example/',
          'https://A.example',
          'https://a.example:443',
          'a.example',
          'null',
          'https://*.a.example',
        ],
      ],
    },
  }
  assert.equal(
    checkGateway(config).map(({ pointer }) => pointer),
    [5, 6, 7, 8, 9, 10].map((index) => `/cors/origins/${index}`),
  )
})

/** Sends bytes unchanged and returns the whole answer. */
function sendRaw(url: string, text: string): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect(Number(port), hostname, () => socket.write(text))
    socket.on('data', (data) => {
      answer += String(data)
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(answer))
  })
}

test('pages can also read the answer to a malformed HTTP request', async () => {
  const begin = (origin: string) => `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: ${origin}\r\n`
  for (const [status, text] of [
    ['431', `X: ${'x'.repeat(70_000)}\r\n\r\n`],
    ['400', 'no header\r\n\r\n'],
  ] as const) {
    for (const [one, origin] of [
      [gateway, PAGE],
      [proxy, '\\*'],
    ] as const) {
      const answer = await sendRaw(one.url, begin(PAGE) + text)
      assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `))
      assert.match(answer, new RegExp(`\r\nAccess-Control-Allow-Origin: ${origin}\r\n`))
    }
  }
  const answer = await sendRaw(gateway.url, `${begin('https://evil.example')}no header\r\n\r\n`)
  assert.match(answer, /^HTTP\/1\.1 400 /)
  assert.not.match(answer, /Allow-Origin/)
})

test.run()
