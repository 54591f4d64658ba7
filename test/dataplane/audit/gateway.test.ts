/** Checks what a gateway's audit log records about calls, refusals and sessions in both eras, and what it never contains. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuditSettings } from '../../../dataplane/config/audit/audit.ts'
import { type Audited, AuditFile } from '../../support/audit/audit-file.ts'
import { eventually } from '../../support/eventually.ts'
import { AUDIENCE, GuardedGateway } from '../../support/gateway/guarded.ts'
import { openSession, post, postModern, rpc } from '../../support/gateway/post.ts'
import { answer, type RawServer, startRawServer, tool } from '../../support/servers/raw-server.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const TRACED = { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` }
const alice = {
  sub: 'alice',
  name: 'Alice',
  azp: 'desk',
  act: { sub: 'agent', iss: 'https://agents', act: { sub: 'root' } },
}
const eve = { sub: 'eve' }
const SECRETS = /hunter2/
/** A structured result that a text item repeats, beside a text that is not JSON. */
const REPEATED = JSON.stringify({
  resultType: 'complete',
  content: [
    { type: 'text', text: JSON.stringify({ city: 'Basel', password: 'hunter2' }) },
    { type: 'text', text: 'city: Basel\npassword: hunter2' },
  ],
  structuredContent: { city: 'Basel', password: 'hunter2' },
})

let file: AuditFile
let backend: RawServer
let guarded: GuardedGateway

const policies = ['permit(principal, action, resource);', 'forbid(principal == Client::"eve", action, resource);']

test.before(async () => {
  file = await AuditFile.create()
  const results: Readonly<Record<string, string>> = {
    good: '{"resultType":"complete","content":[{"type":"text","text":"fine"}],"token":"hunter2"}',
    bad: '{"resultType":"complete","content":[],"isError":true}',
    repeated: REPEATED,
    large: `{"resultType":"complete","content":[{"type":"text","text":"${'isError:true '.repeat(100_000)}"}],"isError":true}`,
  }
  backend = await startRawServer({
    era: 'modern',
    tools: [tool('good'), tool('bad'), tool('large'), tool('broken'), tool('repeated')],
    call: (request) => {
      const name = String(request.message.params?.['name'])
      return name === 'broken'
        ? `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"error":{"code":-32000,"message":"hunter2"}}`
        : answer(request, results[name] ?? '{}')
    },
  })
  guarded = await GuardedGateway.start(
    [{ name: 'it', url: backend.url }],
    { policies },
    { role: 'proxy', audit: settings() },
  )
  const { gateway } = guarded
  await eventually('the tools are there', async () => (await gateway.status()).backends[0]?.tools === 5)
})
test.after(async () => {
  await guarded?.close()
  await backend?.close()
  assert.not.match(file.text, SECRETS)
  await file.remove()
})
test.before.each(() => {
  file.skip()
  backend.seen.length = 0
})

function settings(more: AuditSettings = {}): AuditSettings {
  return { enabled: true, logFile: file.path, component: 'front', trustedProxies: ['127.0.0.0/8'], ...more }
}

const summary = ({ type, outcome, error }: Audited) =>
  [type, outcome, ...(error === undefined ? [] : [error])].join(' ')

/** Applies audit settings and waits until they are in force. */
async function configure(more: AuditSettings): Promise<void> {
  const { config } = await guarded.gateway.status()
  await guarded.gateway.configure({
    role: 'proxy',
    backends: [{ name: 'it', url: backend.url }],
    resourceUrl: AUDIENCE,
    incomingAuth: { type: 'oidc', oidc: { issuer: guarded.idp.issuer, audience: AUDIENCE, allowPrivateIP: true } },
    authz: { policies },
    audit: settings(more),
  })
  await eventually('another configuration', async () => (await guarded.gateway.status()).config !== config)
  const next = (await guarded.gateway.status()).config
  // The status shows it before all of it is in force; then the log line follows.
  await eventually('it is in force', () =>
    guarded.gateway.lines.some(
      (line) => line['config'] === next && line['msg'] === 'another configuration is in force',
    ),
  )
}

test('a call is logged with caller, tool, address, outcome and duration', async () => {
  const headers = {
    ...(await guarded.bearer(alice)),
    ...TRACED,
    'x-request-id': 'mine-1',
    'x-forwarded-for': '1.2.3.4, 198.51.100.7',
    'user-agent': 'test/1',
  }
  const { headers: received } = await postModern(
    guarded.url,
    'tools/call',
    { name: 'good', arguments: { password: 'hunter2' } },
    headers,
  )
  const [event] = await file.next(1)
  const { time, audit_id, duration_ms, ...rest } = event as Audited
  assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000)
  assert.match(audit_id, /^[\da-f-]{36}$/)
  assert.ok(Number(duration_ms) > 0)
  assert.equal(rest, {
    level: 'audit',
    type: 'mcp_tool_call',
    outcome: 'success',
    component: 'front',
    source: { address: '198.51.100.7', user_agent: 'test/1' },
    subject: {
      issuer: guarded.idp.issuer,
      id: 'alice',
      name: 'Alice',
      client: 'desk',
      delegation: [{ issuer: 'https://agents', id: 'agent' }, { id: 'root' }],
    },
    target: { http_method: 'POST', method: 'tools/call', name: 'good', backend: 'it' },
    request_id: 'mine-1',
    trace_id: TRACE,
  })
  assert.is(received.get('x-request-id'), 'mine-1')
  assert.is(backend.seen.at(-1)?.headers['x-request-id'], 'mine-1')
})

test('the outcome of a call: a tool’s error, a backend’s error, a denial by policy, an unknown tool', async () => {
  for (const name of ['bad', 'large', 'broken']) await guarded.modern(alice, 'tools/call', { name })
  await guarded.modern(eve, 'tools/call', { name: 'good' })
  await guarded.modern(alice, 'tools/call', { name: 'none' })
  const events = await file.next(5)
  assert.equal(events.map(summary), [
    'mcp_tool_call application_error',
    'mcp_tool_call application_error',
    'mcp_tool_call failure backend_error',
    'mcp_tool_call denied forbidden',
    'mcp_tool_call denied forbidden',
  ])
  assert.is(events[3]?.subject?.id, 'eve')
  assert.is(events[3]?.target?.['name'], 'good')
})

test('a session of the legacy era, from its start to its end, under one digest', async () => {
  const bearer = await guarded.bearer(alice)
  const session = await openSession(guarded.url, bearer)
  await post(guarded.url, rpc('tools/list'), session)
  await post(guarded.url, rpc('tools/call', { name: 'good' }), session)
  await post(guarded.url, JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }), session)
  const eves = await openSession(guarded.url, await guarded.bearer(eve))
  await post(guarded.url, rpc('tools/call', { name: 'good' }), eves)
  await fetch(guarded.url, { method: 'DELETE', headers: session })
  const events = await file.next(9)
  assert.equal(events.map(summary), [
    'mcp_initialize success',
    'session_started success',
    'mcp_tools_list success',
    'mcp_tool_call success',
    'mcp_notification success',
    'mcp_initialize success',
    'session_started success',
    'mcp_tool_call denied forbidden',
    'session_ended success',
  ])
  const digests = events.map((event) => event.session)
  assert.is(new Set([...digests.slice(0, 5), digests[8]]).size, 1)
  assert.is(new Set(digests.slice(5, 8)).size, 1)
  assert.ok(digests.every((digest) => digest?.length === 22))
  assert.equal(events[0]?.client, { name: 'raw' })
  for (const headers of [session, eves]) assert.not.ok(file.text.includes(String(headers['mcp-session-id'])))
})

test('refused callers, and bodies that are no message', async () => {
  const bearer = await guarded.bearer(alice)
  const token = String(bearer['authorization'])
  await post(guarded.url, rpc('tools/list'), { authorization: `${token.slice(0, -4)}AAAA` })
  await post(guarded.url, rpc('tools/list'))
  await post(guarded.url, '{', bearer)
  await fetch(guarded.url, { method: 'PUT', headers: bearer })
  await fetch(guarded.url, { headers: { ...bearer, accept: 'text/event-stream', 'mcp-session-id': 'hunter2' } })
  const events = await file.next(5)
  assert.equal(events.map(summary), [
    'authentication_failed denied unauthenticated',
    'authentication_failed denied unauthenticated',
    'http_request failure parse_error',
    'http_request failure method_not_allowed',
    'sse_connection failure session_unknown',
  ])
  assert.ok(!('subject' in (events[0] as Audited)))
  assert.is(events[2]?.subject?.id, 'alice')
  const signature = token.slice(token.lastIndexOf('.') + 1, -4)
  assert.not.ok(file.text.includes(signature))
  assert.not.ok(file.text.includes(token.split('.')[1] as string))
})

test('events are chosen by their names; an exclusion wins', async () => {
  await configure({
    eventTypes: ['mcp_tool_call', 'mcp_tools_list', 'session_started'],
    excludeEventTypes: ['mcp_tools_list'],
  })
  file.skip()
  await openSession(guarded.url, await guarded.bearer(alice))
  await guarded.modern(alice, 'tools/list')
  await guarded.modern(alice, 'tools/call', { name: 'good' })
  assert.equal((await file.next(2)).map(summary), ['session_started success', 'mcp_tool_call success'])
})

test('arguments and results are logged if that is configured, masked and cut', async () => {
  await configure({
    // The event is written a moment after the configuration is in force.
    excludeEventTypes: ['config_reload'],
    includeRequestData: true,
    includeResponseData: true,
    maxDataSize: 200,
    detectApplicationErrors: false,
  })
  file.skip()
  await guarded.modern(alice, 'tools/call', { name: 'good', arguments: { city: 'Basel', apiKey: 'hunter2' } })
  await guarded.modern(alice, 'tools/call', { name: 'large' })
  await guarded.modern(alice, 'tools/call', { name: 'bad' })
  const [good, large, bad] = await file.next(3)
  assert.is(Buffer.byteLength(String(good?.data?.request)), 200)
  assert.is(good?.data?.request_cut, true)
  assert.is(JSON.parse(String(good?.data?.response)).result.content[0].text, 'fine')
  assert.is(JSON.parse(String(good?.data?.response)).result.token, '[redacted]')
  assert.is(good?.data?.response_cut, undefined)
  assert.is(Buffer.byteLength(String(large?.data?.response)), 200)
  assert.is(large?.data?.response_cut, true)
  assert.is(bad?.outcome, 'success')
})

test('a structured result that repeats as text is masked in both, and so are arguments', async () => {
  await configure({
    excludeEventTypes: ['config_reload'],
    includeRequestData: true,
    includeResponseData: true,
    maxDataSize: 4096,
  })
  file.skip()
  const { json } = await guarded.modern(alice, 'tools/call', {
    name: 'repeated',
    arguments: { body: JSON.stringify({ city: 'Basel', token: 'hunter2' }) },
  })
  assert.match(JSON.stringify(json), 'hunter2')
  const [event] = await file.next(1)
  const { content, structuredContent } = JSON.parse(String(event?.data?.response)).result
  assert.equal(structuredContent, { city: 'Basel', password: '[redacted]' })
  assert.equal(JSON.parse(content[0].text), structuredContent)
  assert.is(content[1].text, 'city: Basel\npassword: [redacted]')
  const { body } = JSON.parse(String(event?.data?.request)).params.arguments
  assert.equal(JSON.parse(body), { city: 'Basel', token: '[redacted]' })
})

test('a change of the configuration is an event, and so is one that is refused', async () => {
  await configure({ maxDataSize: 17 })
  await guarded.gateway.configure('{')
  await eventually('it is recorded', () => file.text.includes('config_refused'))
  const reloads = file.all.filter(({ type }) => type === 'config_reload').map(summary)
  assert.equal(reloads.slice(-2), ['config_reload success', 'config_reload failure config_refused'])
})

test('if the file can’t be written, the status says so and calls continue', async () => {
  await configure({ logFile: '/proc/no/audit.log' })
  assert.is((await guarded.modern(alice, 'tools/call', { name: 'good' })).status, 200)
  const status = async () =>
    (await guarded.gateway.status()) as unknown as {
      readonly problems: readonly { readonly code: string; readonly message: string }[]
      readonly audit: { readonly problem: string | null; readonly written: number; readonly lost: number }
    }
  await eventually('the problem', async () => (await status()).audit.problem !== null)
  assert.match(
    (await status()).problems.find(({ code }) => code === 'AuditLogUnavailable')?.message ?? '',
    /audit\.log can’t be written: ENOENT/,
  )
  await configure({ enabled: false })
  assert.is((await status()).audit, undefined)
  const before = file.text
  await guarded.modern(alice, 'tools/call', { name: 'good' })
  assert.is(file.text, before)
})

test.run()
