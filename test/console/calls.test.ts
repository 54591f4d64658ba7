/**
 * Tests calls of tools from the console: what servers ask, report and forbid, how a call is stopped, and what prevents
 * one.
 */
import type { ServerResponse } from 'node:http'
import pino from 'pino'
import type { Browser, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { accessSteps } from '../../console/facts/access.ts'
import { readResult } from '../../console/facts/tools.ts'
import { serveLocalConsole } from '../../console/local.ts'
import { readFields } from '../../console/mcp/form-values.ts'
import { claimsText } from '../../console/mcp/tokens.ts'
import { machinePlaces } from '../../console/places/machine.ts'
import { fillWorld, type KubernetesObject } from '../../operator/model/index.ts'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { object } from '../support/operator/standalone-run.ts'
import { type AskingServer, nameIn, startAskingServer } from '../support/servers/asking-server.ts'
import {
  OK_RESULT,
  type RawRequest,
  type RawServer,
  answer as rpcAnswer,
  startRawServer,
  tool,
} from '../support/servers/raw-server.ts'
import { gateway, group, OpenConsole } from './support.ts'

const MIB = 1024 * 1024
const PROPERTIES = {
  who: { type: 'string', title: 'Who?' },
  age: { type: 'integer', minimum: 0 },
  sure: { type: 'boolean' },
}
const QUESTION = {
  method: 'elicitation/create',
  params: {
    mode: 'form',
    message: 'Who are you?',
    requestedSchema: { type: 'object', properties: PROPERTIES, required: ['who'] },
  },
}
/** Arguments of every type that a form supports. */
const SHAPE = {
  type: 'object',
  required: ['level'],
  properties: {
    level: { type: 'string', enum: ['low', 'high'] },
    count: { type: 'integer', minimum: 1, maximum: 9 },
    ratio: { type: 'number', minimum: 0.5 },
    word: { type: 'string', maxLength: 5 },
    sure: { type: 'boolean' },
    place: { type: 'object', properties: { city: { type: 'string' } } },
    when: { oneOf: [{ type: 'string' }, { type: 'integer' }] },
  },
}
/** Markup that a page must show as text. */
const MARKUP = [
  { type: 'text', text: '<img src=x onerror="window.pwned=1"><svg onload="window.pwned=1"></svg></script>' },
  { type: 'resource_link', name: 'link', uri: 'data:text/html,<script>window.pwned=1</script>' },
  {
    type: 'resource',
    resource: { uri: 'ui://a', mimeType: 'text/html', text: '<b>bold</b><iframe src="/"></iframe>' },
  },
  { type: 'image', mimeType: 'image/svg+xml', data: Buffer.from('<svg onload="window.pwned=1"/>').toString('base64') },
]
const STATE = `s\u200b"${'y'.repeat(30_000)}`
const ODD = 'a\u200b\u202e"<'
const LONG = 'LongWord'.repeat(1_250)
const RATES =
  '  config:\n    rateLimiting:\n      tools:\n        - {name: modern_once, shared: {maxTokens: 1, refillPeriod: 5m}}\n    aggregation: {tools: [{workload: modern, filter: [ask, remove, big, once, odd, shape, markup]}]}\n'

let modern: RawServer
let legacy: RawServer
let asking: AskingServer
let one: OpenConsole
let browser: Browser
let page: Page
/** The calls of `slow` that have not ended. */
const running: { readonly request: RawRequest; readonly res: ServerResponse }[] = []

function callModern(request: RawRequest): string {
  const { params = {} } = request.message
  const { inputResponses } = params as { inputResponses?: unknown }
  if (params['name'] === 'ask' && inputResponses === undefined)
    return rpcAnswer(
      request,
      JSON.stringify({ resultType: 'input_required', requestState: STATE, inputRequests: { 'the.one': QUESTION } }),
    )
  if (params['name'] === 'markup')
    return rpcAnswer(request, JSON.stringify({ resultType: 'complete', content: MARKUP }))
  const text = params['name'] === 'big' ? 'x'.repeat(8 * MIB) : JSON.stringify(inputResponses ?? 'done')
  return rpcAnswer(request, JSON.stringify({ resultType: 'complete', content: [{ type: 'text', text }] }))
}

const entry = (name: string, url: string) =>
  object(
    'MCPServerEntry',
    name,
    `spec: {groupRef: {name: all}, remoteUrl: "${url}", allowPrivateEndpoint: true, transport: streamable-http}\n`,
  )

test.before(async () => {
  modern = await startRawServer({
    era: 'modern',
    tools: [
      ...['ask', 'big', 'once', 'hidden', 'markup'].map((name) => tool(name)),
      JSON.stringify({ name: 'shape', inputSchema: SHAPE }),
      JSON.stringify({
        name: 'odd',
        title: LONG,
        description: LONG,
        inputSchema: { type: 'object', properties: { [ODD]: { enum: [ODD], title: LONG, description: LONG } } },
      }),
      tool('remove', '"annotations":{"destructiveHint":true}'),
    ],
    call: callModern,
  })
  legacy = await startRawServer({
    era: 'legacy',
    tools: [tool('slow')],
    call(request, res) {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      running.push({ request, res })
      return undefined
    },
  })
  asking = await startAskingServer({
    params: { message: 'Who?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } },
    onAnswer: (call, message) =>
      call.finish({ content: [{ type: 'text', text: `Hello, ${String(nameIn(message))}!` }] }),
  })
  const servers = [entry('modern', modern.url), entry('legacy', legacy.url), entry('asking', asking.url)]
  one = await OpenConsole.start([group, gateway('tools', RATES), ...servers].join('---\n'))
  await one.open()
  browser = await startBrowser()
  page = await browser.newPage()
  page.setDefaultTimeout(60_000)
  await page.goto(await one.link())
})
test.after(async () => {
  await browser?.close()
  await one?.[Symbol.asyncDispose]()
  await Promise.all([modern?.close(), legacy?.close(), asking?.close()])
})

const TOOLS = '/ns/default/vmcp/tools/tools'
const readPage = () => page.evaluate('document.querySelector("main").innerText') as Promise<string>
const waitForText = (text: RegExp) => eventually(`the page shows ${text}`, async () => text.test(await readPage()))
const open = (name: string) => page.goto(`${one.url}${TOOLS}/${name}`)
const run = () => page.click('form[data-try] button:not([type=button])')
const listCalls = (server: RawServer, name: string) =>
  server.calls('tools/call').filter(({ message }) => message.params?.['name'] === name)

test('a question of a tool is answered in a form that keeps the types', async () => {
  await open('modern_ask')
  await run()
  await waitForText(/Who are you\?/)
  await page.locator('[name="in.0.text.who"]').fill('12')
  await page.locator('[name="in.0.integer.age"]').fill('42')
  await run()
  await waitForText(/answered/)
  const [, second] = listCalls(modern, 'ask')
  assert.equal(second?.message.params?.['inputResponses'], {
    'the.one': { action: 'accept', content: { who: '12', age: 42 } },
  })
  assert.is(second?.message.params?.['requestState'], STATE)
  assert.is(listCalls(modern, 'ask').length, 2)
})

test('names and values with invisible characters are sent unchanged, and long texts stay small', async () => {
  await open('modern_odd')
  const height = (await page.evaluate('document.documentElement.scrollHeight / innerHeight')) as number
  assert.ok(height < 3, `${height} screens`)
  assert.match(await readPage(), /a⟨U\+200B⟩⟨U\+202E⟩"</)
  await page.select('form[data-try] select', ODD)
  await run()
  await waitForText(/answered/)
  assert.equal(listCalls(modern, 'odd')[0]?.message.params?.['arguments'], { [ODD]: ODD })
  // The page after the call resubmits the same form.
  await run()
  await eventually('it is called again', () => listCalls(modern, 'odd').length === 2)
  assert.equal(listCalls(modern, 'odd')[1]?.message.params?.['arguments'], { [ODD]: ODD })
})

test('22: a form has choices and bounds of the schema; other types are JSON', async () => {
  await open('modern_shape')
  const attributes = (name: string) =>
    page.$eval(`[name="arg.${name}"]`, (input) => [
      input.localName,
      ...['type', 'min', 'max', 'step', 'maxlength', 'aria-required'].map((one) => input.getAttribute(one)),
    ])
  assert.equal(await attributes('level'), ['select', null, null, null, null, null, 'true'])
  assert.equal(await attributes('count'), ['input', 'number', '1', '9', '1', null, null])
  assert.equal(await attributes('ratio'), ['input', 'number', '0.5', null, 'any', null, null])
  assert.equal(await attributes('word'), ['input', null, null, null, null, '5', null])
  for (const name of ['place', 'when']) assert.is((await attributes(name))[0], 'textarea', name)
  const values = { level: 'high', count: 3, ratio: 0.75, word: '12345', sure: true, place: { city: 'Rome' }, when: 7 }
  await page.select('[name="arg.level"]', values.level)
  await page.select('[name="arg.sure"]', 'true')
  for (const name of ['count', 'ratio', 'word', 'place', 'when'] as const) {
    const value = values[name]
    await page.type(`[name="arg.${name}"]`, typeof value === 'string' ? value : JSON.stringify(value))
  }
  await run()
  await waitForText(/answered/)
  assert.equal(listCalls(modern, 'shape')[0]?.message.params?.['arguments'], values)
})

test('28: a result with HTML, SVG or a data: link is text', async () => {
  await open('modern_markup')
  await run()
  await waitForText(/answered/)
  const text = await readPage()
  for (const part of ['<img src=x onerror', 'data:text/html,<script>', '<b>bold</b>'])
    assert.ok(text.includes(part), part)
  const created = await page.$$eval('main :is(img, svg, iframe, script, object, embed, a[href^="data:"])', (found) =>
    found.map(({ outerHTML }) => outerHTML),
  )
  assert.equal(created, [])
  assert.is(await page.evaluate('window.pwned'), undefined)
})

test('a question that a tool with sessions asks during its call is answered in a form', async () => {
  await open('asking_t')
  await run()
  await waitForText(/Who\?/)
  await page.locator('[name="in.0.text.name"]').fill('Ada')
  await run()
  await waitForText(/Hello, Ada!/)
  assert.is(asking.asking.length, 1)
})

test('progress is shown while a call runs, and Esc cancels it at the backend', async () => {
  const send = (message: object) =>
    running.at(-1)?.res.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
  const progress = (done: number, message?: string) => {
    const { _meta } = (running.at(-1) as (typeof running)[number]).request.message.params as {
      _meta: { progressToken: unknown }
    }
    send({
      method: 'notifications/progress',
      params: { progressToken: _meta.progressToken, progress: done, total: 3, message },
    })
  }
  await open('legacy_slow')
  await run()
  await eventually('the backend is called', () => running.length === 1)
  progress(1, '<b>read</b>\u202e')
  await waitForText(/1 of 3 <b>read<\/b>⟨U\+202E⟩/)
  send({ id: running[0]?.request.message.id, result: JSON.parse(OK_RESULT) })
  await waitForText(/answered/)
  assert.match(await readPage(), '1 of 3')
  await open('legacy_slow')
  await run()
  await eventually('the backend is called again', () => running.length === 2)
  progress(2)
  await waitForText(/2 of 3/)
  await page.keyboard.press('Escape')
  await eventually('the backend is notified', () => legacy.calls('notifications/cancelled').length === 1)
  await waitForText(/stopped/)
  assert.is(running.length, 2)
})

/** Submits the form of a page as a browser without script does. */
async function post(path: string, fields: Readonly<Record<string, string>>) {
  const token = /name="form" value="([^"]+)"/.exec((await one.text(path)).split('data-try').at(-1) ?? '')?.[1] ?? ''
  const headers = { cookie: one.cookie, origin: one.url }
  const body = new URLSearchParams({ form: token, ...fields })
  return (await fetch(one.url + path, { method: 'POST', headers, body })).text()
}

test('a destructive tool needs a second confirmation', async () => {
  await open('modern_remove')
  await run()
  // The browser requires the checkbox.
  assert.is(await page.evaluate('document.querySelector("form[data-try]").matches(":invalid")'), true)
  const path = `${TOOLS}/modern_remove`
  assert.match(await post(path, {}), 'Confirm that it may destroy something.')
  assert.is(listCalls(modern, 'remove').length, 0)
  await page.click('[name=confirmed]')
  await run()
  await waitForText(/answered/)
  assert.is(listCalls(modern, 'remove').length, 1)
  // The next call requires it again.
  assert.is(await page.evaluate('document.querySelector("form[data-try]").matches(":invalid")'), true)
})

test('a result of 8 MiB is cut, with its size, and the page stays small', async () => {
  await open('modern_big')
  await run()
  await waitForText(/8,388,608 bytes/)
  const size = (await page.evaluate('document.documentElement.outerHTML.length')) as number
  assert.ok(size < 100_000, String(size))
  assert.match(await readPage(), /shown: the first [\d,]+ characters/)
  const html = await post(`${TOOLS}/modern_big`, {})
  assert.ok(html.length < 100_000, String(html.length))
  await page.click('main nav a[href$="/connect"]')
  await waitForText(/VS Code/)
})

interface Explained {
  readonly verdict: string
  readonly steps: readonly { readonly step: string; readonly passed: boolean | null; readonly says: string }[]
}

async function explainCall(name: string): Promise<Explained> {
  const path = '/ns/default/vmcp/tools/access'
  const token =
    /action="[^"]+\/access"[^>]*><input type="hidden" name="form" value="([^"]+)"/.exec(await one.text(path))?.[1] ?? ''
  const headers = { cookie: one.cookie, origin: one.url, accept: 'application/json' }
  const body = new URLSearchParams({ form: token, tool: name, claims: '', arguments: '' })
  return ((await (await fetch(one.url + path, { method: 'POST', headers, body })).json()) as { facts: Explained }).facts
}
const findStep = ({ steps }: Explained, name: string) => steps.find(({ step }) => step === name)

test('the page tells a filtered tool, a tool whose limit is reached and a tool that does not exist apart', async () => {
  const free = await explainCall('modern_once')
  assert.equal(
    [free.verdict, findStep(free, 'rate')?.passed, findStep(free, 'tool filter')?.passed],
    ['allowed', true, true],
  )
  await post(`${TOOLS}/modern_once`, {})
  assert.match(await post(`${TOOLS}/modern_once`, {}), /retry|limit/i)
  assert.is(listCalls(modern, 'once').length, 1)
  let full = free
  await eventually('its pod reports the limit', async () => {
    full = await explainCall('modern_once')
    return full.verdict === 'denied'
  })
  assert.is(findStep(full, 'rate')?.passed, false)
  assert.match(findStep(full, 'rate')?.says ?? '', 'the limit of 1 call in 5m refuses all callers now')
  const hidden = await explainCall('modern_hidden')
  assert.equal([hidden.verdict, findStep(hidden, 'tool filter')?.passed], ['denied', false])
  assert.match(findStep(hidden, 'tool filter')?.says ?? '', 'the filter of its server leaves this tool out')
  const nothing = await explainCall('nothing')
  assert.equal([nothing.verdict, findStep(nothing, 'tool filter')?.passed], ['denied', false])
  assert.match(findStep(nothing, 'tool filter')?.says ?? '', 'there is no tool of this name')
})

test('a limit per user that refused somebody is not shown as a denial of this viewer', () => {
  const limit = { bucket: 'perUser', tool: 'modern_once', maxTokens: 2, refillPeriod: '1m', refuses: true }
  const reports = [{ status: { rateLimits: { limits: [limit] } }, at: 0 }]
  const settings = {
    objects: fillWorld({ objects: [] }).objects,
    object: { kind: 'MCPServer', metadata: { name: 'a' } } as KubernetesObject,
  }
  const question = { tool: 'modern_once', claims: '', arguments: '' }
  const steps = accessSteps({ ...settings, question, reports, caller: undefined, explanation: null, listed: undefined })
  assert.equal(steps.at(-1), {
    step: 'rate',
    passed: null,
    says: 'the limit of 2 calls in 1m for each user refuses at least one user now',
  })
})

test('a result of any JSON is shown', () => {
  const odd = { toString: 1, valueOf: null }
  const read = (message: object) => {
    const answer = {
      ...{ status: 200, challenge: null, requestId: null, bytes: 1, isCut: false },
      ...{ text: '', durationMs: 1 },
    }
    return readResult({ ...answer, message: { ...message } }, [], readFields)
  }
  const { content } = read({
    result: { content: [{ type: odd, text: odd, mimeType: odd }, null, 1, [], { type: 'text' }] },
  })
  assert.equal(
    content.map(({ type, text }) => [type, text]),
    [
      [JSON.stringify(odd), ''],
      ['text', ''],
    ],
  )
  assert.is(read({ error: { code: odd, message: odd } }).error, `${JSON.stringify(odd)}: ${JSON.stringify(odd)}`)
  assert.is(read({ error: {} }).isError, true)
  const answer = read({
    result: { resultType: 'input_required', inputRequests: { a: { params: { message: odd } }, b: 1 } },
  })
  assert.equal(
    answer.questions.map(({ id, message }) => [id, message]),
    [
      ['a', JSON.stringify(odd)],
      ['b', ''],
    ],
  )
})

test('the claims of a token fill in the form of explain, and other text does not', () => {
  const token = (payload: string) => `e30.${Buffer.from(payload).toString('base64url')}.x`
  assert.is(claimsText(token('{"sub":"ada","groups":["eng"]}')), '{"sub":"ada","groups":["eng"]}')
  for (const other of [undefined, '', 'opaque', 'a.b.c', token('[]'), token('null'), token('{"sub":1}'), token('{}')])
    assert.is(claimsText(other), '', other)
})

test('if a token expires before the call, the page says so, keeps the typed values, and does not repeat the call', async () => {
  const raw = await startRawServer({
    era: 'modern',
    tools: ['{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}'],
    call(_, res) {
      const challenge = 'Bearer error="invalid_token", resource_metadata="http://127.0.0.1/x"'
      res.writeHead(401, { 'www-authenticate': challenge, 'content-type': 'application/json' })
      res.end('{"error":"unauthenticated","message":"The token has expired."}')
      return undefined
    },
  })
  const id = { kind: 'VirtualMCPServer', namespace: 'default', name: 'far' }
  const spec = { groupRef: { name: 'all' }, incomingAuth: { type: 'oidc' } }
  const remote = { apiVersion: 'portico.dev/v1beta1', kind: id.kind, metadata: { ...id, uid: 'far' }, spec }
  const source = {
    group: 'portico.dev',
    objects: () => [{ object: remote as unknown as KubernetesObject, file: 'far.yaml' }],
    endpoints: () => [{ ...id, url: raw.url, admin: new URL(raw.url).origin }],
    auditLines: () => [],
  }
  const local = await serveLocalConsole({
    places: async () => machinePlaces(source, 'far'),
    listen: '127.0.0.1:0',
    viewer: 'ada',
    log: () => pino({ level: 'silent' }),
  })
  const context = await browser.createBrowserContext()
  try {
    const tab = await context.newPage()
    await tab.goto(local.openUrl())
    // The token is accepted for the list and refused for the call.
    await tab.goto(`${local.url}/ns/default/vmcp/far/tools/t`)
    await tab.type('[name="arg.a"]', 'typed')
    await tab.click('form[data-try] button:not([type=button])')
    const text = () => tab.evaluate('document.querySelector("main").innerText') as Promise<string>
    await eventually('the page says so', async () => /The token has ended or is not accepted/.test(await text()))
    assert.match(await text(), 'The call was not repeated.')
    assert.is(await tab.$eval('[name="arg.a"]', (input) => (input as unknown as { value: string }).value), 'typed')
    assert.is((await tab.$$('button[name=login]')).length, 1)
    assert.is(raw.calls('tools/call').length, 1)
  } finally {
    await context.close()
    await local.close()
    await raw.close()
  }
})

test.run()
