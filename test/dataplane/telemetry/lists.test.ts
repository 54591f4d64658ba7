/** Checks that the spans of lists filtered by policies have the number of items that a caller sees, and no names. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { type Claims, GuardedGateway } from '../../support/gateway/guarded.ts'
import { postModern } from '../../support/gateway/post.ts'
import { type ReferenceServer, startReference } from '../../support/servers/reference.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { spanTree } from '../../support/telemetry/span-tree.ts'

const SAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const policies = [
  'permit(principal == Client::"all", action, resource);',
  'permit(principal == Client::"some", action == Action::"read_resource", resource) when { resource.uri like "test://static-*" };',
  'permit(principal == Client::"some", action == Action::"get_prompt", resource == Prompt::"ref_test_simple_prompt");',
]
/** The list methods, with the member of their results that has the items. */
const LISTS = { tools: 'tools', prompts: 'prompts', resources: 'resources', 'resources/templates': 'resourceTemplates' }

let receiver: OtlpReceiver
let reference: ReferenceServer
let guarded: GuardedGateway

const telemetry = () => ({
  openTelemetry: {
    enabled: true,
    endpoint: receiver.url,
    insecure: true,
    tracing: { enabled: true, samplingRate: '0.0' },
  },
})

test.before(async () => {
  receiver = await startOtlpReceiver()
  reference = await startReference()
  const backends = [{ name: 'ref', url: reference.url }]
  guarded = await GuardedGateway.start(backends, { policies }, { telemetry: telemetry() })
  await eventually('its tools are there', async () => ((await guarded.gateway.status()).backends[0]?.tools ?? 0) > 0)
})
test.after(async () => {
  await guarded.close()
  await reference.close()
  await receiver.close()
})
test.before.each(() => {
  receiver.spans.length = 0
})

/** Requests a list and returns the number of items. */
async function countListed(
  sub: string,
  list: keyof typeof LISTS,
  headers: Record<string, string> = {},
): Promise<number> {
  const claims: Claims = { sub }
  const { json } = await postModern(guarded.url, `${list}/list`, {}, { ...(await guarded.bearer(claims)), ...headers })
  return (json.result[LISTS[list]] as unknown[]).length
}

const COUNTS = ['portico.list.items', 'portico.list.allowed', 'portico.result']
const buildSpans = (list: string, items: number, allowed: number) => [
  `server ${list}/list`,
  '  internal authenticate',
  `  internal authorize portico.list.items=${items} portico.list.allowed=${allowed}`,
]

for (const [list, visible] of [
  ['tools', 0],
  ['prompts', 1],
  ['resources', 2],
  ['resources/templates', 0],
] as const)
  test(`${list}/list: one span says how many of how many entries are allowed, also for a cached list`, async () => {
    const items = await countListed('all', list)
    assert.ok(items > visible)
    for (const [sub, allowed] of [
      ['all', items],
      ['some', visible],
      ['some', visible],
      ['none', 0],
    ] as const) {
      receiver.spans.length = 0
      assert.is(await countListed(sub, list, { traceparent: SAMPLED }), allowed, sub)
      await receiver.received(3)
      assert.equal(spanTree(receiver.spans, COUNTS), buildSpans(list, items, allowed), sub)
      assert.not.match(JSON.stringify(receiver.spans), /ref_|test:/)
    }
  })

test('unsampled or unfiltered lists have no such span', async () => {
  await countListed('some', 'prompts')
  await countListed('some', 'prompts', { traceparent: SAMPLED.replace(/1$/, '0') })
  await guarded.enforce(undefined)
  await countListed('some', 'prompts', { traceparent: SAMPLED })
  await receiver.received(2)
  assert.equal(spanTree(receiver.spans, COUNTS), ['server prompts/list', '  internal authenticate'])
})

test.run()
