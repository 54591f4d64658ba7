/** Tests spans, counters and audit events of composite tools: for runs, steps and their calls. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Audited, AuditFile } from '../../../support/audit/audit-file.ts'
import { eventually } from '../../../support/eventually.ts'
import type { TestConfig } from '../../../support/gateway/gateway.ts'
import { GuardedGateway } from '../../../support/gateway/guarded.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../../support/telemetry/otlp-receiver.ts'
import { spanTree } from '../../../support/telemetry/span-tree.ts'

const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
}
const askingStep = {
  id: 'sure',
  type: 'elicitation',
  message: 'Sure?',
  schema: { type: 'object', properties: { ok: { type: 'boolean' } } },
}
const call = (id: string, name: string, more: object = {}) => ({ id, type: 'tool', tool: `b_${name}`, ...more })

const compositeTools = [
  {
    name: 'release',
    steps: [
      call('build', 'good'),
      call('push', 'denied', { dependsOn: ['build'], onError: { action: 'continue' } }),
      call('never', 'good', { dependsOn: ['push'], condition: 'false' }),
      {
        id: 'each',
        type: 'forEach',
        collection: '[1,2]',
        maxParallel: 1,
        dependsOn: ['never'],
        step: { type: 'tool', tool: 'b_good' },
      },
    ],
  },
  { name: 'failing', steps: [call('tried', 'bad')] },
  { name: 'slow', timeout: '2s', steps: [call('waits', 'silent')] },
  { name: 'asking', steps: [askingStep] },
] as unknown as NonNullable<TestConfig['compositeTools']>

let receiver: OtlpReceiver
let file: AuditFile
let backend: RawServer
let guarded: GuardedGateway

test.before(async () => {
  receiver = await startOtlpReceiver()
  file = await AuditFile.create()
  backend = await startRawServer({
    era: 'modern',
    tools: ['good', 'bad', 'denied', 'silent'].map((name) => tool(name)),
    call(request) {
      const name = request.message.params?.['name']
      if (name === 'silent') return undefined
      const isError = name === 'bad' ? '"isError":true,' : ''
      return answer(request, OK_RESULT.replace('{', `{"resultType":"complete",${isError}`))
    },
  })
  guarded = await GuardedGateway.start(
    [{ name: 'b', url: backend.url }],
    { policies: ['permit(principal, action, resource);', 'forbid(principal, action, resource == Tool::"b_denied");'] },
    {
      compositeTools,
      audit: { enabled: true, logFile: file.path },
      telemetry: {
        openTelemetry: {
          enabled: true,
          endpoint: receiver.url,
          insecure: true,
          tracing: { enabled: true, samplingRate: '0.0' },
          metrics: { enabled: true },
        },
      },
    },
  )
  await eventually('the tools are there', async () => (await guarded.gateway.status()).backends[0]?.tools === 4)
})
test.after(async () => {
  await guarded?.close()
  await backend?.close()
  await receiver.close()
  await file.remove()
})
test.before.each(() => {
  receiver.spans.length = 0
  file.skip()
})

async function callComposite(name: string, headers: Record<string, string> = {}, more: object = {}) {
  const params = { name, arguments: {}, _meta: META, ...more }
  const authorization = await guarded.bearer({ sub: 'alice' })
  const { json } = await postModern(guarded.url, 'tools/call', params, { ...authorization, ...headers })
  return json.result
}

const summary = ({ type, outcome, error, target }: Audited) =>
  [type, outcome, error, target?.['name'], target?.['step']].filter((part) => part !== undefined).join(' ')

test('a run is one trace with its steps, their calls, and the policy decisions', async () => {
  await callComposite('release', { traceparent: SAMPLED })
  await receiver.received(16)
  const good = [
    '    internal tools/call b_good',
    '      client tools/call good',
    '      internal authorize portico.result=allowed',
  ]
  assert.equal(spanTree(receiver.spans, ['portico.result', 'portico.workflow']), [
    'server tools/call release',
    '  internal authenticate',
    '  internal authorize portico.result=allowed',
    '  internal build portico.workflow=release',
    ...good,
    '  internal each portico.workflow=release',
    ...good,
    ...good,
    '  internal never portico.workflow=release',
    '  internal push failed error.type=_OTHER portico.workflow=release',
    '    internal tools/call failed error.type=forbidden',
    '      internal authorize portico.result=denied',
  ])
  // The audit lines are written asynchronously. None may arrive while the next test reads.
  await file.next(15)
})

test('the audit log has the run, its steps, and each call as if the client had made it', async () => {
  await callComposite('release', { 'x-request-id': 'mine-1' })
  const events = await file.next(15)
  assert.equal(events.map(summary), [
    'vmcp_workflow_started success release',
    'vmcp_workflow_step_started success release build',
    'mcp_tool_call success b_good',
    'vmcp_workflow_step_completed success release build',
    'vmcp_workflow_step_started success release push',
    'mcp_tool_call denied forbidden b_denied',
    'vmcp_workflow_step_failed failure release push',
    'vmcp_workflow_step_started success release never',
    'vmcp_workflow_step_skipped success release never',
    'vmcp_workflow_step_started success release each',
    'mcp_tool_call success b_good',
    'mcp_tool_call success b_good',
    'vmcp_workflow_step_completed success release each',
    'vmcp_workflow_completed success release',
    'mcp_tool_call success release',
  ])
  assert.equal(new Set(events.map(({ request_id }) => request_id)), new Set(['mine-1']))
  assert.equal(new Set(events.map(({ subject }) => subject?.id)), new Set(['alice']))
  const [started, stepStarted] = events
  assert.equal([started?.duration_ms, stepStarted?.duration_ms], [undefined, undefined])
  for (const index of [3, 13]) assert.ok(Number(events[index]?.duration_ms) > 0)
})

test('a run that fails, one that takes too long, and one that waits for its user', async () => {
  await callComposite('failing')
  const failing = await file.next(6)
  // The client's request had no id, so the gateway made one, which all events of the run share.
  assert.is(new Set(failing.map(({ request_id }) => request_id)).size, 1)
  assert.equal(failing.map(summary), [
    'vmcp_workflow_started success failing',
    'vmcp_workflow_step_started success failing tried',
    'mcp_tool_call application_error b_bad',
    'vmcp_workflow_step_failed failure failing tried',
    'vmcp_workflow_failed failure failing',
    'mcp_tool_call application_error failing',
  ])
  file.skip()
  await callComposite('slow')
  const slow = (await file.next(6)).map(summary)
  assert.equal(slow.slice(4).sort(), [
    'mcp_tool_call failure backend_error b_silent',
    'vmcp_workflow_step_failed failure slow waits',
  ])
  assert.equal(slow.slice(0, 4), [
    'vmcp_workflow_started success slow',
    'vmcp_workflow_step_started success slow waits',
    'vmcp_workflow_timed_out failure slow',
    'mcp_tool_call application_error slow',
  ])
  file.skip()
  const { inputRequests, requestState } = await callComposite('asking')
  const [key] = Object.keys(inputRequests)
  await callComposite(
    'asking',
    {},
    { requestState, inputResponses: { [key as string]: { action: 'accept', content: {} } } },
  )
  assert.equal((await file.next(7)).map(summary), [
    'vmcp_workflow_started success asking',
    'vmcp_workflow_step_started success asking sure',
    'mcp_tool_call success asking',
    'vmcp_workflow_step_started success asking sure',
    'vmcp_workflow_step_completed success asking sure',
    'vmcp_workflow_completed success asking',
    'mcp_tool_call success asking',
  ])
})

test('steps are counted by tool, step and outcome; their calls do not count as requests of clients', async () => {
  const steps = await receiver.counted('portico.workflow.step.duration', 12)
  const counts = steps.map(({ attributes, count }) =>
    [attributes['portico.workflow'], attributes['portico.step'], attributes['error.type'] ?? 'ok', count].join(' '),
  )
  assert.equal(counts.sort(), [
    'asking sure ok 2',
    'failing tried _OTHER 1',
    'release build ok 2',
    'release each ok 2',
    'release never ok 2',
    'release push _OTHER 2',
    'slow waits _OTHER 1',
  ])
  const requests = await receiver.counted('mcp.server.operation.duration', 6)
  assert.is(
    requests.reduce((sum, { count }) => sum + count, 0),
    6,
  )
})

test.run()
