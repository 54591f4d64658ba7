/** Checks that a run ends with a result or an error result, whatever JSON of any size the tools in its steps answer. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import type { RpcResult } from '../../../support/gateway/rpc-message.ts'
import { answer, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

let backend: RawServer
let gateway: GatewayUnderTest
let session: Record<string, string>
/** The JSON text of the backend's answer: its result, or the whole message. */
let reply: { readonly result?: string; readonly message?: string } = {}

const forEachStep = (step: object) => ({ id: 'each', type: 'forEach', collection: '{{.steps.odd.output.list}}', step })
const compositeTools = [
  { name: 'alone', steps: [{ id: 'odd', type: 'tool', tool: 'b_odd' }] },
  {
    name: 'used',
    steps: [
      { id: 'odd', type: 'tool', tool: 'b_odd' },
      {
        id: 'used',
        type: 'tool',
        tool: 'b_echo',
        dependsOn: ['odd'],
        arguments: {
          all: '{{.steps.odd.output}}',
          deep: '{{.steps.odd.output.a.b.c}}',
          text: 'it said {{.steps.odd.output.text}} and {{json .steps.odd.output}}',
        },
      },
      {
        ...forEachStep({ type: 'tool', tool: 'b_echo', arguments: { it: '{{.forEach.item}}' } }),
        dependsOn: ['odd'],
        onError: { action: 'continue' },
      },
    ],
    output: {
      properties: {
        used: { type: 'string', value: '{{.steps.used.status}}' },
        each: { type: 'string', value: '{{.steps.each.status}}' },
        deep: { type: 'object', value: '{{.steps.odd.output.a}}', default: {} },
        number: { type: 'number', value: '{{.steps.odd.output.number}}', default: 0 },
      },
    },
  },
] as unknown as NonNullable<TestConfig['compositeTools']>

test.before(async () => {
  backend = await startRawServer({
    era: 'both',
    tools: [tool('odd'), tool('echo')],
    call(request) {
      if (request.message.params?.['name'] === 'echo') return answer(request, '{"resultType":"complete","content":[]}')
      return reply.message?.replace('ID', JSON.stringify(request.message.id)) ?? answer(request, reply.result ?? '{}')
    },
  })
  gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }], compositeTools })
  await gateway.listed()
  session = await openSession(gateway.url)
})
test.after(async () => {
  await gateway.close()
  await backend.close()
})

/** Returns the results of both tools in both eras, and checks that each is a result and that no run continues. */
async function results(): Promise<RpcResult[]> {
  const answers: RpcResult[] = []
  for (const { name } of compositeTools) {
    const { json: modern } = await postModern(gateway.url, 'tools/call', { name, arguments: {} })
    const { json: legacy } = await post(gateway.url, rpc('tools/call', { name, arguments: {} }), session)
    for (const { result } of [modern, legacy]) {
      assert.ok(Array.isArray(result?.content), JSON.stringify([modern, legacy]).slice(0, 2_000))
      answers.push(result)
    }
  }
  const { workflows } = await gateway.status()
  assert.equal(
    workflows.map(({ running }) => running),
    [0, 0],
  )
  return answers
}

const VALUES = [
  ...['null', 'true', '-0', '1e400', '-1.5e-300', '12345678901234567890123', '""', '"\\ud800"', '"\\u0000{{.params}}"'],
  ...['[]', '[null,[[]],{}]', '{}', '{"__proto__":{"a":1}}', '{"constructor":null,"toString":7,"a":{"b":3}}'],
]

test('any JSON value in any place of a result', async () => {
  for (const value of VALUES)
    for (const result of [
      value,
      `{"content":${value}}`,
      `{"content":[${value}]}`,
      `{"content":[{"type":${value},"text":${value}}]}`,
      `{"content":[{"type":"text","text":${value}}]}`,
      `{"content":[],"structuredContent":${value}}`,
      `{"content":[],"structuredContent":{"a":${value},"list":${value},"number":${value},"text":${value}}}`,
      `{"content":[],"structuredContent":{"a":{"b":${value}},"list":[${value},${value}]}}`,
      `{"content":[],"isError":${value},"resultType":${value},"_meta":${value}}`,
    ]) {
      reply = { result }
      await results()
    }
})

test('any JSON value in any place of an error, and invalid messages', async () => {
  for (const value of VALUES)
    for (const message of [
      `{"jsonrpc":"2.0","id":ID,"error":${value}}`,
      `{"jsonrpc":"2.0","id":ID,"error":{"code":${value},"message":${value},"data":${value}}}`,
      `{"jsonrpc":"2.0","id":ID,"result":${value},"error":${value}}`,
      `{"jsonrpc":"2.0","id":ID}`,
    ]) {
      reply = { message }
      for (const { isError, content } of await results())
        if (!message.includes('"result"'))
          assert.ok(isError && content[0].text.includes('step "odd" has failed'), message)
    }
})

test('names such as toString and __proto__ are members like others, or absent', async () => {
  reply = { result: '{"content":[],"structuredContent":{"a":{"b":{"c":1}},"__proto__":{"number":5},"list":[]}}' }
  const [, , modern] = await results()
  assert.equal(modern?.structuredContent, { used: 'completed', each: 'completed', deep: { b: { c: 1 } }, number: 0 })
})

test('a result that is nested too deep or too large fails its step and releases its memory', async () => {
  const deep = 100_000
  for (const structured of [
    `${'['.repeat(deep)}${']'.repeat(deep)}`,
    `{"a":${'{"a":'.repeat(deep)}1${'}'.repeat(deep)}}`,
    `{"text":"${'x'.repeat(11_000_000)}"}`,
    `{"a":[${'1,'.repeat(4_000_000)}1]}`,
  ]) {
    reply = { result: `{"content":[],"structuredContent":${structured}}` }
    for (const { isError, content } of await results()) {
      assert.is(isError, true)
      assert.match(content[0].text, 'step "odd" has failed')
    }
  }
  reply = { result: `{"content":[],"structuredContent":{"list":[${'0,'.repeat(2_000)}0]}}` }
  for (const { structuredContent } of (await results()).slice(2)) assert.is(structuredContent.each, 'failed')
  reply = { result: `{"content":[],"structuredContent":{"a":{"b":"${'x'.repeat(2_000_000)}"},"list":[1,2,3]}}` }
  for (const { structuredContent } of (await results()).slice(2)) {
    const { b } = structuredContent['deep'] as { b: string }
    assert.is(b.length, 2_000_000)
  }
})

test.run()
