import { execFile } from 'node:child_process'
import { symlinkSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Browser } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gatewaySetups } from '../../../../dataplane/gateway/page/gateway-page.ts'
import { toolSummaries } from '../../../../dataplane/gateway/page/overview.ts'
import { openPage, startBrowser } from '../../../support/browser.ts'
import { eventually } from '../../../support/eventually.ts'
import { temporaryFolder } from '../../../support/folder.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const root = join(import.meta.dirname, '../../../..')
const evil = '<script>alert(1)</script><img src=x onerror=alert(1)>'
const tool = (name: string, description: string) =>
  JSON.stringify({ name, description, inputSchema: { type: 'object' } })
const login = {
  type: 'oidc' as const,
  oidc: { issuer: 'https://idp.example', audience: 'a', scopes: ['use'] },
} satisfies TestConfig['incomingAuth']

let good: McpTestServer
let hostile: RawServer
let gateway: GatewayUnderTest
let browser: Browser

/** Starts a gateway and waits until it has tried every backend. */
async function startKnown(config: TestConfig): Promise<GatewayUnderTest> {
  const served = await startGateway(config)
  const areBackendsKnown = async () => (await served.status()).backends.every(({ health }) => health !== 'unknown')
  await eventually('every backend was called', areBackendsKnown)
  return served
}

test.before(async () => {
  browser = await startBrowser()
  good = await startMcpServer({ name: 'good' })
  hostile = await startRawServer({
    era: 'legacy',
    call: () => undefined,
    tools: [tool('evil', evil), tool('l'.repeat(120), 'w'.repeat(400))],
  })
  gateway = await startKnown({
    name: 'tools',
    backends: [
      { name: 'good', url: good.url },
      { name: 'hostile', url: hostile.url },
      { name: 'away', url: 'http://127.0.0.1:9/mcp' },
    ],
  })
})
test.after(async () => {
  await browser?.close()
  await gateway?.close()
  await Promise.all([good?.close(), hostile?.close()])
})

const ask = async (base: string, accept: string, path = '/', method = 'GET') => {
  const response = await fetch(`${base}${path}`, { method, headers: { accept } })
  return { status: response.status, headers: response.headers, text: await response.text() }
}
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

/** Sends a request with the given Host header. */
const fetchAsHost = (base: string, host: string) =>
  new Promise<{ status: number; text: string }>((resolve, reject) => {
    const sent = request(base, { headers: { host, accept: BROWSER } }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    sent.on('error', reject).end()
  })

test('the root page shows the endpoint, its backends and how each client connects', async () => {
  const { status, headers, text } = await ask(gateway.base, BROWSER)
  assert.is(status, 200)
  assert.match(headers.get('content-type') ?? '', 'text/html')
  for (const wanted of [
    '<title>tools · Portico</title>',
    `>${gateway.url}</pre>`,
    `claude mcp add --transport http tools ${gateway.url}`,
    'VS Code',
    'Cursor',
    'MCP Inspector',
    '<td>good</td><td><span class="tag">healthy</span></td>',
    'good_echo',
  ])
    assert.ok(text.includes(wanted), wanted)
  assert.match(text, /<td>away<\/td><td><span class="tag warn">(degraded|unhealthy)<\/span><\/td><td>0</)
})

test('programs get the same as JSON or in two lines, and HEAD works', async () => {
  const json = JSON.parse((await ask(gateway.base, 'application/json')).text)
  assert.is(json.endpoint, gateway.url)
  assert.equal(
    json.servers.map(({ name }: { name: string }) => name),
    ['good', 'hostile', 'away'],
  )
  assert.is(json.tools.length, json.toolCount)
  assert.is((await ask(gateway.base, '*/*')).text, `tools: an MCP gateway\nMCP endpoint: ${gateway.url}\n`)
  const head = await ask(gateway.base, BROWSER, '/', 'HEAD')
  assert.equal([head.status, head.text], [200, ''])
})

test('other paths are not found; a client that posts to the root gets the endpoint', async () => {
  for (const path of ['/none', '/index.html', '/mcp/none', '//'])
    assert.is((await ask(gateway.base, BROWSER, path)).status, 404)
  const answers = [
    await ask(gateway.base, 'text/event-stream'),
    await ask(gateway.base, 'application/json', '/', 'POST'),
  ]
  for (const { status, text } of answers) {
    assert.is(status, 404)
    assert.match(JSON.parse(text).message, '/mcp')
  }
})

test('texts of backends are shown as text, and the content security policy blocks scripts', async () => {
  const { text, headers } = await ask(gateway.base, BROWSER)
  assert.match(text, '&lt;script&gt;alert(1)')
  assert.not.match(text, '<script')
  assert.not.match(text, '<img')
  assert.not.match(text, /\son\w+="/)
  const policy = headers.get('content-security-policy') ?? ''
  assert.match(policy, "default-src 'none'")
  assert.not.match(policy, 'unsafe')
})

test('an unserved host name gets no page; if all are served, invalid names are not shown', async () => {
  const other = await fetchAsHost(gateway.base, 'rebound.example')
  assert.is(other.status, 403)
  assert.not.match(other.text, 'good')
  const open = await startKnown({ backends: [{ name: 'good', url: good.url }], allowedHosts: ['*'] })
  try {
    assert.match((await fetchAsHost(open.base, 'any.example:81')).text, '>http://any.example:81/mcp</pre>')
    const odd = await fetchAsHost(open.base, "x$(id)'&.example")
    assert.match(odd.text, 'tools/list')
    // What remains of the name is a single shell word.
    assert.not.match(odd.text, /http [\w-]+ http:\/\/x\$/)
    const broken = await fetchAsHost(open.base, '"><b>')
    assert.is(broken.status, 400)
    assert.not.match(broken.text, '<b>')
  } finally {
    await open.close()
  }
})

test('if callers have to log in, the page shows where and nothing behind the endpoint', async () => {
  const closed = await startKnown({
    name: 'closed',
    backends: [{ name: 'secretive', url: good.url }],
    resourceUrl: 'https://tools.example/mcp',
    incomingAuth: { ...login, scopeRules: [{ name: 'writing', tools: ['secretive_*'], scopes: ['write', 'more'] }] },
  })
  try {
    for (const accept of [BROWSER, 'application/json', '*/*']) {
      const { status, text } = await ask(closed.base, accept)
      assert.is(status, 200)
      assert.match(text, 'https://tools.example/mcp')
      assert.not.match(text, /secretive|echo|healthy|toolCount/)
    }
    const { text } = await ask(closed.base, BROWSER)
    assert.match(text, 'https://idp.example')
    assert.match(text, 'https://tools.example/.well-known/oauth-protected-resource/mcp')
    assert.match(text, '<td class="wrap"><code>write</code> <code>more</code> (rule writing)</td>')
    const program = JSON.parse((await ask(closed.base, 'application/json')).text)
    assert.equal(program.login.scopes, ['use'])
    assert.equal(program.needs, { scopes: [{ rule: 'writing', scopes: ['write', 'more'] }], accounts: [], keys: [] })
  } finally {
    await closed.close()
  }
})

test('below a path prefix the page is served and names the endpoint there', async () => {
  const below = await startKnown({ backends: [], endpointPrefix: '/team' })
  try {
    const { text } = await ask(below.base, BROWSER, '/team/')
    assert.match(text, `>${below.base}/team/mcp</pre>`)
    // Its only link to itself stays below the prefix.
    assert.match(text, '<a href="./">Portico</a>')
  } finally {
    await below.close()
  }
})

test('a proxy has the page too', async () => {
  const proxy = await startKnown({ name: 'single', role: 'proxy', backends: [{ name: 'only', url: good.url }] })
  try {
    const { text } = await ask(proxy.base, BROWSER)
    assert.match(text, '<td>only</td>')
    assert.match(text, '>echo<')
  } finally {
    await proxy.close()
  }
})

test('a backend with 100,000 tools, and one with descriptions of 1 MB, make no large page', async () => {
  const catalog = (tools: readonly string[]) =>
    ({
      routes: new Map(tools.map((_, index) => [String(index), { backend: 'b' }])),
      legacyList: Buffer.from(`{"tools":[${tools.join(',')}]}`),
    }) as unknown as Parameters<typeof toolSummaries>[0]
  const many = toolSummaries(catalog(Array.from({ length: 100_000 }, (_, index) => tool(`t${index}`, 'd'))))
  assert.equal([many.tools.length, many.total], [200, 100_000])
  const long = toolSummaries(catalog(Array.from({ length: 20 }, () => tool('n'.repeat(1e6), 'd'.repeat(1e6)))))
  assert.is(long.total, 20)
  assert.ok(JSON.stringify(long.tools).length < 2_000)
  const odd = toolSummaries(
    catalog(['{"name":"a","description":7}', '{"name":"b","description":"\\ud800"}', '{"name":["c"]}']),
  )
  assert.equal(odd.tools, [
    { name: 'a', description: '' },
    { name: 'b', description: '\ufffd' },
    { name: '', description: '' },
  ])
  // Once for each catalog.
  const one = catalog([tool('t', 'd')])
  assert.is(toolSummaries(one), toolSummaries(one))

  const crowd = Array.from({ length: 300 }, (_, index) => ({ name: `b${index}`, url: 'http://127.0.0.1:9/mcp' }))
  const crowded = await startGateway({ backends: crowd })
  try {
    const { text } = await ask(crowded.base, BROWSER)
    assert.match(text, 'and 200 more')
    assert.ok(text.length < 40_000)
  } finally {
    await crowded.close()
  }
})

test('the commands on the page work as shown', async () => {
  const { name, endpoint, ...more } = JSON.parse((await ask(gateway.base, 'application/json')).text)
  const setups = gatewaySetups({ name, endpoint, access: { kind: 'open', ...more } })
  const text = (client: string) => setups.find((one) => one.client === client)?.text ?? ''
  using folder = temporaryFolder({ 'package.json': '{"type":"module"}' })
  symlinkSync(join(root, 'node_modules'), join(folder.path, 'node_modules'))
  const run = promisify(execFile)
  const curl = await run('sh', ['-c', text('curl')])
  assert.match(curl.stdout, 'good_echo')
  const program = await run(process.execPath, [folder.write('program.js', text('TypeScript'))])
  assert.match(program.stdout, 'good_echo')
  const inspector = text('MCP Inspector').replace('npx @modelcontextprotocol/inspector', '')
  const bin = join(root, 'node_modules/.bin/mcp-inspector')
  assert.match((await run('sh', ['-c', `${process.execPath} ${bin} ${inspector}`])).stdout, 'good_echo')
})

test('in a browser the page has its layout and loads everything, light and dark', async () => {
  const light = await openPage(gateway.base, { browser })
  const dark = await openPage(gateway.base, { browser, dark: true })
  assert.equal([light.console, dark.console], ['', ''])
  assert.not.equal(light.picture, dark.picture)
  assert.match(light.dom, 'good_echo')
  // An unstyled page is nearly white, and its picture a fraction of this size.
  for (const { picture } of [light, dark]) assert.ok(picture.length > 15_000, `${picture.length}`)
})

test('very long words stay within a narrow window', async () => {
  using folder = temporaryFolder()
  const measure = '<script>document.title = document.documentElement.scrollWidth</script></body>'
  const file = folder.write('page.html', (await ask(gateway.base, BROWSER)).text.replace('</body>', measure))
  const { dom } = await openPage(pathToFileURL(file).href, { browser, width: 500 })
  assert.is(/<title>(.*)<\/title>/.exec(dom)?.[1], '500')
})

test.run()
