/** Tests composite tools with policies: each step's call is authorized as if the caller had made it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const calling = (name: string, toolName: string) => ({ name, steps: [{ id: 's', type: 'tool', tool: toolName }] })

test('a step gives the same error for a denied and an unknown tool', async () => {
  const backend = await startRawServer({
    era: 'both',
    tools: [tool('open'), tool('shut'), tool('hidden')],
    call: (request) => answer(request, OK_RESULT),
  })
  const gateway = await startGateway({
    backends: [{ name: 'b', url: backend.url }],
    aggregation: { tools: [{ workload: 'b', filter: ['open', 'shut'] }] },
    authz: {
      policies: [
        'permit(principal, action, resource);',
        'forbid(principal, action, resource == Tool::"b_shut");',
        'forbid(principal, action, resource == Tool::"b_hidden");',
        'forbid(principal, action, resource == Tool::"secret");',
      ],
    },
    compositeTools: [
      calling('good', 'b.open'),
      calling('denied', 'b.shut'),
      calling('denied_hidden', 'b.hidden'),
      calling('gone', 'b.gone'),
      calling('secret', 'b.open'),
    ] as unknown as NonNullable<TestConfig['compositeTools']>,
  })
  try {
    const call = (name: string) => postModern(gateway.url, 'tools/call', { name, arguments: {} })
    const callForText = async (name: string) => (await call(name)).json.result.content[0].text
    assert.is(await callForText('good'), 'ok')
    for (const name of ['denied', 'denied_hidden', 'gone'])
      assert.is(await callForText(name), `${name}: step "s" has failed: This is not allowed.`)
    assert.is((await call('secret')).status, 403)
    const { json } = await postModern(gateway.url, 'tools/list')
    assert.equal(
      json.result.tools.map(({ name }: { name: string }) => name),
      ['b_open', 'denied', 'denied_hidden', 'gone', 'good'],
    )
    assert.is(backend.calls('tools/call').length, 1)
  } finally {
    await gateway.close()
    await backend.close()
  }
})

test.run()
