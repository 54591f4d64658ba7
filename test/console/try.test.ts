import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { callMcp } from '../../console/mcp/client.ts'
import { startBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { object } from '../support/operator/standalone-run.ts'
import { endFileOnError } from '../support/or-fail.ts'
import { gateway, group, OpenConsole, server } from './support.ts'

const POLICY =
  'permit(principal, action == Action::"call_tool", resource) unless { resource == Tool::"clock_current_time" || (context has arg_time && context.arg_time == "2026-01-01T00:00") };'
const manifests = [
  group,
  gateway('tools'),
  server('clock'),
  object(
    'VirtualMCPServer',
    'guarded',
    `spec:\n  groupRef: {name: all}\n  incomingAuth:\n    type: anonymous\n    authzConfig: {type: inline, inline: {policies: [${JSON.stringify(POLICY)}]}}\n  config:\n    audit: {enabled: true}\n    usage: {enabled: true, people: digest}\n`,
  ),
].join('---\n')

let one: OpenConsole

test.before(async () => {
  one = await OpenConsole.start(manifests)
  await one.open()
})
test.after(() => one[Symbol.asyncDispose]())

/** Submits a page's form as a browser does. */
async function post(
  path: string,
  fields: Readonly<Record<string, string>>,
  changes: Readonly<Record<string, string>> = {},
) {
  const page = await one.text(path)
  const action = path.split('?')[0] as string
  const form = [...page.matchAll(/<form[^>]*action="([^"]+)"[^>]*><input type="hidden" name="form" value="([^"]+)"/g)]
  const token = form.find(([, to]) => to === action)?.[2] ?? ''
  const headers = { cookie: one.cookie, origin: one.url, accept: 'application/json' }
  return fetch(one.url + action, {
    method: 'POST',
    headers,
    body: new URLSearchParams({ form: token, ...fields, ...changes }),
  })
}

test('the tools that the viewer sees are listed, each with a form', async () => {
  const { facts } = await one.json('/ns/default/vmcp/tools/tools')
  const names = facts.tools.map(({ name }: { name: string }) => name)
  assert.ok(names.includes('clock_convert_time'), names.join())
  const { facts: tool } = await one.json('/ns/default/vmcp/tools/tools/clock_convert_time')
  const kinds = Object.fromEntries(tool.fields.map(({ name, kind }: { name: string; kind: string }) => [name, kind]))
  assert.equal([kinds['time'], kinds['to']], ['text', 'json'])
  assert.is((await one.get('/ns/default/vmcp/tools/tools/nothing')).status, 404)
})

test('a call runs with the typed values, or with raw JSON; the result is text', async () => {
  const path = '/ns/default/vmcp/tools/tools/clock_convert_time'
  const typed = { 'arg.time': '2026-11-20T15:00', 'arg.from': 'Europe/Lisbon', 'arg.to': '["Asia/Tokyo"]' }
  for (const fields of [
    typed,
    { raw: JSON.stringify({ time: '2026-11-20T15:00', from: 'Europe/Lisbon', to: ['Asia/Tokyo'] }) },
  ]) {
    const answer = await post(path, fields)
    assert.is(answer.status, 200)
    const { facts } = (await answer.json()) as { facts: { result: { isError: boolean; content: { text: string }[] } } }
    assert.is(facts.result.isError, false, JSON.stringify(facts.result))
    assert.match(facts.result.content[0]?.text ?? '', '2026-11-21 00:00  Asia/Tokyo')
  }
  const missing = (await (await post(path, { 'arg.time': '2026-11-20T15:00' })).json()) as {
    facts: { problem: string; result: unknown }
  }
  assert.equal([missing.facts.problem, missing.facts.result], ['from: a value is required.', null])
  const wrong = (await (await post(path, { ...typed, 'arg.to': '{' })).json()) as {
    facts: { problem: string; result: unknown }
  }
  assert.equal([wrong.facts.problem, wrong.facts.result], ['to: this is no JSON. It looks like ["…", "…"].', null])
})

test('a form without its token, with that of another form, or from elsewhere calls nothing', async () => {
  const path = '/ns/default/vmcp/tools/tools/clock_convert_time'
  const page = await one.text('/ns/default/vmcp/tools/access')
  const other = /name="form" value="([^"]+)"/.exec(page)?.[1] ?? ''
  for (const form of ['', 'x', other]) assert.is((await post(path, {}, { form })).status, 403)
  const json = await fetch(one.url + path, {
    method: 'POST',
    headers: { cookie: one.cookie, origin: one.url, 'content-type': 'application/json' },
    body: '{}',
  })
  assert.is(json.status, 415)
})

test('the page explains the same as POST /explain, for an allowed, a denied and an unknown tool', async () => {
  const admin = one.portico.reports.at(-1)?.endpoints.find(({ name }) => name === 'guarded')?.admin
  for (const [tool, verdict] of [
    ['clock_convert_time', 'allowed'],
    ['clock_current_time', 'denied'],
    ['nothing', 'denied'],
  ] as const) {
    const { facts } = (await (
      await post('/ns/default/vmcp/guarded/access', { tool, claims: '', arguments: '' })
    ).json()) as {
      facts: { verdict: string; explanation: object; error: string | null }
    }
    const direct = await fetch(`${admin}/explain`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ tool, arguments: {} }),
    })
    assert.equal(facts.explanation, await direct.json(), tool)
    assert.is(facts.verdict, verdict, tool)
  }
})

test('unusual claims get an answer', async () => {
  for (const claims of ['{"sub": "a\\"b\'<img>"}', '[]', '{', 'null', JSON.stringify({ sub: 'x'.repeat(70_000) })]) {
    const answer = await post('/ns/default/vmcp/guarded/access', { tool: 'clock_convert_time', claims, arguments: '' })
    assert.ok([200, 413].includes(answer.status), `${claims.slice(0, 20)}: ${answer.status}`)
  }
})

test('a call that was denied for its arguments is explained with them, and from the log the page says that they are missing', async () => {
  const path = '/ns/default/vmcp/guarded/tools/clock_convert_time'
  const input = { time: '2026-01-01T00:00', from: 'UTC', to: ['UTC'] }
  const { facts: tried } = (await (await post(path, { raw: JSON.stringify(input) })).json()) as {
    facts: { result: { status: number; requestId: string }; why: { arguments: string; claims: string } }
  }
  assert.equal([tried.result.status, JSON.parse(tried.why.arguments), tried.why.claims], [403, input, ''])
  const access = '/ns/default/vmcp/guarded/access'
  const { facts } = (await (await post(access, { tool: 'clock_convert_time', ...tried.why })).json()) as {
    facts: { verdict: string }
  }
  assert.is(facts.verdict, 'denied')
  const logged = `${access}?request=${tried.result.requestId}`
  await eventually('the audit log has it', async () => (await one.json(logged)).facts.filledFrom !== null)
  assert.is((await one.json(logged)).facts.verdict, 'allowed')
  assert.match(await one.text(logged), 'which would pass with what is known of it')
})

test('a denied call of the audit log fills the form', async () => {
  const url = one.portico.reports.at(-1)?.endpoints.find(({ name }) => name === 'guarded')?.url ?? ''
  await post('/ns/default/vmcp/guarded/tools/clock_convert_time', { raw: '{}' })
  const denied = await callMcp({ url, token: undefined }, 'tools/call', { name: 'clock_current_time', arguments: {} })
  assert.is(denied.status, 403)
  const calls = async () => (await one.json('/ns/default/vmcp/guarded/access')).facts.denied
  await eventually('the audit log has it', async () =>
    (await calls()).some(({ tool }: { tool: string }) => tool === 'clock_current_time'),
  )
  const { requestId } = (await calls()).find(({ tool }: { tool: string }) => tool === 'clock_current_time')
  const filled = await one.json(`/ns/default/vmcp/guarded/access?request=${requestId}`)
  assert.is(filled.facts.question.tool, 'clock_current_time')
  // The page explains it at once.
  assert.equal([filled.facts.verdict, filled.facts.filledFrom.requestId], ['denied', requestId])
  const page = await one.text(`/ns/default/vmcp/guarded/access?request=${requestId}`)
  assert.match(page, /DENIED<\/span><span dir="auto">by the policy: /)
})

test('usage shows the counters, also by client; CSV holds no formulas and no person is named', async () => {
  const url = one.portico.reports.at(-1)?.endpoints.find(({ name }) => name === 'guarded')?.url ?? ''
  const before = (await one.json('/ns/default/vmcp/guarded/usage')).facts
  const { postModern } = await import('../support/gateway/post.ts')
  const client = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: '=1+1', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const call = { name: 'clock_current_time', arguments: {}, _meta: client }
  assert.is((await postModern(url, 'tools/call', call)).status, 403)
  const readUsage = async (by: string) => (await one.json(`/ns/default/vmcp/guarded/usage?by=${by}`)).facts
  const findRow = async (by: string, name: string) =>
    (await readUsage(by)).rows.find((row: { name: string }) => row.name === name)
  await eventually('it is counted', async () => (await findRow('client', '=1+1'))?.denied === 1)
  const first = before.rows.find(({ name }: { name: string }) => name === 'clock_current_time')
  const readDenied = async () => (await findRow('tool', 'clock_current_time'))?.denied
  await eventually('it is counted by tool, too', async () => (await readDenied()) === (first?.denied ?? 0) + 1)
  assert.equal(
    (await readUsage('person')).rows.map(({ name }: { name: string }) => name),
    [''],
  )
  const csv = await one.text('/ns/default/vmcp/guarded/usage?by=client&format=csv')
  assert.match(csv, /^client,calls,errors,denied\r\n/)
  assert.match(csv, '"\'=1+1",1,0,1')
  assert.match(await one.text('/ns/default/vmcp/guarded/usage'), 'Source: counters')
  const { missing } = (await one.json('/ns/default/vmcp/tools/usage')).facts
  assert.match(missing, 'usage.enabled')
})

test('in a browser without a mouse: a tool is called, and the typed values stay', async () => {
  await using browser = await startBrowser()
  const page = await browser.newPage()
  await page.goto(await one.link())
  await page.goto(`${one.url}/ns/default/vmcp/tools/tools/clock_convert_time`)
  await page.focus('[name="arg.time"]')
  await page.keyboard.type('2026-11-20T15:00')
  await page.focus('[name="arg.from"]')
  await page.keyboard.type('Europe/Lisbon')
  await page.focus('[name="arg.to"]')
  await page.keyboard.type('["Asia/Tokyo"]')
  await page.focus('[name="arg.time"]')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#result')
  const text = (await page.evaluate('document.querySelector("main").innerText')) as string
  assert.match(text, /2026-11-21 00:00\s+Asia.Tokyo/, text)
  assert.is(
    await page.$eval('[name="arg.from"]', (input) => (input as unknown as { value: string }).value),
    'Europe/Lisbon',
  )
})

test('48: hostile claims, names of clients and lines of the audit log stay text', async () => {
  const hostile = '<img src=x onerror=window.pwned=1></script>{{7*7}}javascript:x\u202eevil\u200b'
  const url = one.portico.reports.at(-1)?.endpoints.find(({ name }) => name === 'guarded')?.url ?? ''
  const { postModern } = await import('../support/gateway/post.ts')
  const client = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: hostile, version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  await postModern(url, 'tools/call', { name: 'clock_current_time', arguments: {}, _meta: client })
  const base = '/ns/default/vmcp/guarded'
  await eventually('it is logged', async () => (await one.text(`${base}/log`)).includes('onerror'))
  await eventually('it is counted', async () => (await one.text(`${base}/usage?by=client`)).includes('onerror'))
  await using browser = await startBrowser()
  const page = await browser.newPage()
  const messages: string[] = []
  page.on('console', (message) => messages.push(message.text()))
  page.on('pageerror', (error) => messages.push(String(error)))
  await page.goto(await one.link())
  for (const path of [`${base}/log`, `${base}/usage?by=client`, `${base}/access`]) {
    await page.goto(one.url + path)
    if (path.endsWith('/access')) {
      await page.type('[name=tool]', 'clock_convert_time')
      await page.type('[name=claims]', JSON.stringify({ sub: hostile }))
      await Promise.all([page.waitForNavigation(), page.click('form.fields button')])
    } else assert.match((await page.evaluate('document.querySelector("main").innerText')) as string, '⟨U+202E⟩', path)
    assert.is(await page.evaluate('document.documentElement.scrollWidth > innerWidth'), false, path)
    assert.is(await page.evaluate('document.querySelector("main img")'), null, path)
    assert.is(await page.evaluate('window.pwned'), undefined, path)
  }
  assert.equal(messages, [])
})

test('events are read at any chunk boundary, with either line end', async () => {
  const events = (end: string) =>
    [{ method: 'notifications/progress' }, { method: 'notifications/message' }, { id: 1, result: { a: 'ä' } }]
      .map((message) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}${end}${end}`)
      .join('')
  let text = Buffer.alloc(0)
  let step = 1
  const sender = createServer(
    endFileOnError(async (_: IncomingMessage, response: ServerResponse) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (let at = 0; at < text.length; at += step) {
        response.write(text.subarray(at, at + step))
        await new Promise((resolve) => setImmediate(resolve))
      }
      response.end()
    }),
  )
  await new Promise<void>((resolve) => sender.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(sender.address() as AddressInfo).port}`
  try {
    for (const end of ['\n', '\r\n'])
      for (step of [1, 2, 3, 7, 64, 1_000]) {
        text = Buffer.from(events(end))
        const seen: unknown[] = []
        const onNotification = ({ method }: Readonly<Record<string, unknown>>) => void seen.push(method)
        const { message } = await callMcp({ url, token: undefined }, 'tools/list', {}, { onNotification })
        assert.equal(message?.['result'], { a: 'ä' }, `${step} ${JSON.stringify(end)}`)
        assert.equal(seen, ['notifications/progress', 'notifications/message'])
      }
  } finally {
    sender.closeAllConnections()
    sender.close()
  }
})

test.run()
