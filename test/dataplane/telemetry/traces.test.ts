/** Checks the spans of calls at an OTLP receiver: their parents and attributes, and the trace context that backends get. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { GuardedGateway } from '../../support/gateway/guarded.ts'
import { modern, openSession, post, rpc } from '../../support/gateway/post.ts'
import { answer, type RawServer, startRawServer, tool } from '../../support/servers/raw-server.ts'
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { scrape } from '../../support/telemetry/prometheus-text.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'
const SAMPLED = `00-${TRACE}-${PARENT}-01`
const UNSAMPLED = `00-${TRACE}-${PARENT}-00`

let receiver: OtlpReceiver
let one: RawServer
let two: RawServer
let guarded: GuardedGateway

const others = ['bad', 'large', 'nested', 'broken'].map((name) => tool(name))
const results: Readonly<Record<string, string>> = {
  bad: '{"resultType":"complete","content":[{"type":"text","text":"no"}],"isError":true}',
  large: `{"resultType":"complete","isError":true,"content":[{"type":"text","text":"${'no '.repeat(400_000)}"}]}`,
  nested: '{"resultType":"complete","content":[],"structuredContent":{"isError":true},"isError":false}',
}

const openTelemetry = (url: string, more: object = {}) => ({
  enabled: true,
  endpoint: url,
  insecure: true,
  tracing: { enabled: true, samplingRate: '0.0' },
  ...more,
})

test.before(async () => {
  receiver = await startOtlpReceiver()
  const call = (request: Parameters<typeof answer>[0]) => {
    const name = String(request.message.params?.['name'])
    if (name === 'broken')
      return `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"error":{"code":-32099,"message":"no"}}`
    return answer(request, results[name] ?? '{"resultType":"complete","content":[]}')
  }
  one = await startRawServer({ era: 'legacy', tools: [tool('alpha'), ...others], call })
  two = await startRawServer({ era: 'modern', tools: [tool('beta'), ...others], call })
  guarded = await GuardedGateway.start(
    [
      { name: 'one', url: one.url },
      { name: 'two', url: two.url },
    ],
    { policies: ['permit(principal, action, resource);', 'forbid(principal == Client::"eve", action, resource);'] },
    { telemetry: { serviceName: 'tools', openTelemetry: openTelemetry(receiver.url), prometheus: { enabled: true } } },
  )
})

test.after(async () => {
  await guarded.close()
  await Promise.all([one.close(), two.close(), receiver.close()])
})

test.before.each(() => {
  receiver.spans.length = 0
  one.seen.length = 0
  two.seen.length = 0
})

const alice = { sub: 'alice' }
const ofKind = (kind: number): ReceivedSpan[] => receiver.spans.filter((span) => span.kind === kind)
const [INTERNAL, SERVER, CLIENT] = [1, 2, 3]

/** Makes one call with a client of each era. */
async function call(name: string, headers: Record<string, string>, meta?: object) {
  const session = await openSession(guarded.url, await guarded.bearer(alice))
  const params = { name, arguments: { password: 'hunter2' }, ...(meta === undefined ? {} : { _meta: meta }) }
  return post(guarded.url, rpc('tools/call', params, 7), { ...session, ...headers })
}

const readTrace = (backend: RawServer) => {
  const [sent] = backend.calls('tools/call')
  const meta = sent?.message.params?.['_meta'] as Record<string, unknown> | undefined
  return { header: sent?.headers['traceparent'], state: sent?.headers['tracestate'], meta: meta?.['traceparent'] }
}

test('each call of two backends is a server span with a client span and its checks of token and policy', async () => {
  assert.is((await call('one_alpha', { traceparent: SAMPLED, tracestate: 'vendor=1' })).status, 200)
  assert.is((await call('two_beta', { traceparent: SAMPLED })).status, 200)
  await receiver.received(8)
  assert.is(receiver.spans.length, 8)
  for (const [name, backend, own, server, raw] of [
    ['one_alpha', 'one', 'alpha', ofKind(SERVER)[0], one],
    ['two_beta', 'two', 'beta', ofKind(SERVER)[1], two],
  ] as const) {
    assert.ok(server)
    assert.equal([server.name, server.traceId, server.parentSpanId], [`tools/call ${name}`, TRACE, PARENT])
    assert.not.ok(server.failed)
    const { attributes, resource } = server
    assert.is(attributes['gen_ai.tool.name'], name)
    assert.is(attributes['mcp.tool.name'], name)
    assert.is(attributes['gen_ai.operation.name'], 'execute_tool')
    assert.is(attributes['jsonrpc.request.id'], '7')
    assert.is(attributes['network.transport'], 'tcp')
    assert.equal([resource['service.name'], resource['service.namespace']], ['tools', 'default'])
    const below = receiver.spans.filter(({ parentSpanId }) => parentSpanId === server.spanId)
    assert.equal(below.map((span) => [span.kind, span.name]).sort(), [
      [INTERNAL, 'authenticate'],
      [INTERNAL, 'authorize'],
      [CLIENT, `tools/call ${own}`],
    ])
    assert.is(below.find((span) => span.name === 'authorize')?.attributes['portico.result'], 'allowed')
    const client = below.find(({ kind }) => kind === CLIENT) as ReceivedSpan
    assert.is(client.attributes['portico.backend'], backend)
    assert.is(client.attributes['gen_ai.tool.name'], own)
    assert.is(client.attributes['server.port'], raw.port)
    assert.ok(client.ms <= server.ms)
    const traceparent = `00-${TRACE}-${client.spanId}-01`
    const state = backend === 'one' ? 'vendor=1' : undefined
    assert.equal(readTrace(raw), { header: traceparent, state, meta: traceparent })
  }
  assert.not.match(JSON.stringify(receiver.spans), /hunter2|Bearer|eyJ/)
})

test('a context in _meta counts where the headers have none, and is replaced on the way to the backend', async () => {
  const other = SAMPLED.replace(TRACE, 'a'.repeat(32))
  await call('one_alpha', {}, { traceparent: SAMPLED, kept: 1 })
  await call('two_beta', { traceparent: SAMPLED }, { traceparent: other, tracestate: 'left=out' })
  await receiver.received(8)
  assert.equal(new Set(receiver.spans.map(({ traceId }) => traceId)), new Set([TRACE]))
  for (const backend of [one, two]) {
    const { header, meta, state } = readTrace(backend)
    assert.match(String(header), new RegExp(`^00-${TRACE}-(?!${PARENT})[0-9a-f]{16}-01$`))
    assert.equal([meta, state], [header, undefined])
  }
  assert.match(String(one.calls('tools/call')[0]?.body), /"kept":1/)
})

test('an unsampled call keeps its trace context, or gets an unsampled one, and has no span', async () => {
  await call('one_alpha', { traceparent: UNSAMPLED, tracestate: 'vendor=1' })
  await call('two_beta', {})
  assert.equal(readTrace(one), { header: UNSAMPLED, state: 'vendor=1', meta: UNSAMPLED })
  const own = readTrace(two)
  assert.match(String(own.header), /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
  assert.is(own.meta, own.header)
  // Spans are sent in the order in which they end, so those of an earlier call would have arrived.
  await call('two_beta', { traceparent: SAMPLED })
  await receiver.received(4)
  assert.is(receiver.spans.length, 4)
})

test('an invalid trace context is ignored, whatever its type and size', async () => {
  const meta: readonly unknown[] = [1, null, [SAMPLED], { a: 1 }, '', 'x'.repeat(100_000), SAMPLED.toUpperCase()]
  const headers = ['00-0-0-01', `ff${SAMPLED.slice(2)}`, `00-${'0'.repeat(32)}-${PARENT}-01`, `${SAMPLED}, ${SAMPLED}`]
  for (const traceparent of meta) assert.is((await call('one_alpha', {}, { traceparent })).status, 200)
  for (const traceparent of headers) assert.is((await call('one_alpha', { traceparent })).status, 200)
  for (const { headers: sent } of one.calls('tools/call'))
    assert.match(String(sent['traceparent']), /^00-[0-9a-f-]+-00$/)
  assert.is(one.calls('tools/call').length, meta.length + headers.length)
  await call('two_beta', { traceparent: SAMPLED, tracestate: `a=${'x'.repeat(600)}` })
  await receiver.received(4)
  assert.equal([receiver.spans.length, readTrace(two).state], [4, undefined])
})

test('any _meta is kept, with the context added, and the body stays JSON', async () => {
  const session = await openSession(guarded.url, await guarded.bearer(alice))
  const metas = [
    '{}',
    '{ \n }',
    '{"a":1}',
    ' { "a" : {"}":[]} , "b":"{" }',
    '{"traceparent":null,"a":1}',
    '{"tracestate":"x=1"}',
  ]
  for (const meta of [undefined, ...metas]) {
    const params = `{"name":"one_alpha"${meta === undefined ? '' : `,"_meta":${meta}`},"arguments":{}}`
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`
    const { status } = await post(guarded.url, body, { ...session, traceparent: UNSAMPLED })
    assert.is(status, 200)
    const sent = one.calls('tools/call').at(-1)?.message.params
    const { traceparent: _, tracestate: __, ...otherMeta } = JSON.parse(meta ?? '{}')
    assert.equal(sent, { name: 'alpha', arguments: {}, _meta: { ...otherMeta, traceparent: UNSAMPLED } }, meta)
  }
})

test('a tool’s error result marks both spans and the metrics as failed; an error inside a result does not', async () => {
  const countEnded = async () => {
    const text = await scrape(guarded.gateway.adminUrl)
    return (metric: string, labels: object) => text.value(metric, { error_type: 'tool_error', ...labels }) ?? 0
  }
  const before = await countEnded()
  for (const backend of ['one', 'two'])
    for (const name of ['bad', 'large', 'nested']) {
      receiver.spans.length = 0
      assert.is((await call(`${backend}_${name}`, { traceparent: SAMPLED })).status, 200)
      await receiver.received(4)
      const errors = [...ofKind(SERVER), ...ofKind(CLIENT)].map((span) => [span.failed, span.attributes['error.type']])
      const expected = name === 'nested' ? [false, undefined] : [true, 'tool_error']
      assert.equal(errors, [expected, expected], `${backend} ${name}`)
    }
  const after = await countEnded()
  const countMore = (metric: string, labels: object) => after(metric, labels) - before(metric, labels)
  for (const [portico_backend, gen_ai_tool_name] of [
    ['one', 'bad'],
    ['two', 'large'],
  ]) {
    assert.is(countMore('mcp_client_operation_duration_seconds_count', { portico_backend }), 2)
    assert.is(countMore('portico_tool_calls_total', { portico_backend, gen_ai_tool_name }), 1)
    const toolName = `${portico_backend}_${gen_ai_tool_name}`
    assert.is(countMore('mcp_server_operation_duration_seconds_count', { gen_ai_tool_name: toolName }), 1)
  }
})

test('a backend’s error has its code on both spans; the gateway’s own has the code of the answer', async () => {
  for (const name of ['one_broken', 'two_broken']) {
    receiver.spans.length = 0
    await call(name, { traceparent: SAMPLED })
    await receiver.received(4)
    for (const { failed, attributes } of [...ofKind(SERVER), ...ofKind(CLIENT)])
      assert.equal(
        [failed, attributes['error.type'], attributes['rpc.response.status_code']],
        [true, '_OTHER', '-32099'],
      )
  }
  receiver.spans.length = 0
  await call('one_none', { traceparent: SAMPLED })
  await receiver.received(3)
  const attributes = ofKind(SERVER)[0]?.attributes ?? {}
  assert.equal([attributes['error.type'], attributes['rpc.response.status_code']], ['forbidden', '403'])
})

test('a client span has the id of its own request', async () => {
  const bearer = await guarded.bearer(alice)
  for (const id of [7, 'seven "7"']) {
    receiver.spans.length = 0
    const { body, headers } = modern('tools/call', { name: 'two_beta' })
    const withId = JSON.stringify({ ...JSON.parse(body), id })
    assert.is((await post(guarded.url, withId, { ...headers, ...bearer, traceparent: SAMPLED })).status, 200)
    await receiver.received(4)
    for (const span of [...ofKind(SERVER), ...ofKind(CLIENT)])
      assert.is(span.attributes['jsonrpc.request.id'], String(id))
  }
  receiver.spans.length = 0
  const { body, headers } = modern('tools/call', { name: 'one_alpha' })
  const mine = JSON.stringify({ ...JSON.parse(body), id: 'mine' })
  await post(guarded.url, mine, { ...headers, ...bearer, traceparent: SAMPLED })
  await receiver.received(4)
  // All callers of the modern era share one session with it, whose ids the gateway assigns.
  const sent = one.calls('tools/call').at(-1)?.message.id
  assert.is.not(sent, 'mine')
  assert.equal(
    [ofKind(SERVER)[0]?.attributes['jsonrpc.request.id'], ofKind(CLIENT)[0]?.attributes['jsonrpc.request.id']],
    ['mine', String(sent)],
  )
})

test('a denied call is a failed server span with the method alone, and without a client span', async () => {
  const session = await openSession(guarded.url, await guarded.bearer({ sub: 'eve' }))
  const { status } = await post(guarded.url, rpc('tools/call', { name: 'one_alpha' }, 1), {
    ...session,
    traceparent: SAMPLED,
  })
  assert.is(status, 403)
  await post(guarded.url, rpc('tools/list'), { traceparent: SAMPLED })
  await receiver.received(4)
  const [denied, unknown] = ofKind(SERVER)
  assert.equal([denied?.name, denied?.failed, denied?.attributes['error.type']], ['tools/call', true, 'forbidden'])
  assert.is(denied?.attributes['gen_ai.tool.name'], 'one_alpha')
  assert.equal([unknown?.name, unknown?.attributes['error.type']], ['other', 'unauthenticated'])
  assert.equal(ofKind(CLIENT), [])
  const within = ofKind(INTERNAL).map(({ name, attributes }) => [name, attributes['portico.result']])
  assert.equal(within.sort(), [
    ['authenticate', undefined],
    ['authorize', 'denied'],
  ])
})

test.run()
