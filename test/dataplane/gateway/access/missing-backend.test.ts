/**
 * Tests `partialFailureMode: fail` with policies: a caller who may use nothing of a failed backend is neither affected
 * nor told.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { GuardedGateway } from '../../../support/gateway/guarded.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

const failureHandling = {
  healthCheckInterval: '3s',
  healthCheckTimeout: '2900ms',
  unhealthyThreshold: 1,
  partialFailureMode: 'fail',
} as const
const policies = [
  'permit(principal in Group::"finance", action, resource);',
  'permit(principal, action, resource in Backend::"docs");',
]
const finance = { sub: 'fred', groups: ['finance'] }
const others = { sub: 'olga' }
const LISTS = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']

const server = (port?: number) =>
  startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    ...(port === undefined ? {} : { port }),
  })

test('a backend that is down affects the lists of those alone who may use it, and is named to them alone', async () => {
  const docs = await server()
  const payroll = await server()
  const backends = [
    { name: 'docs', url: docs.url },
    { name: 'payroll', url: payroll.url },
  ]
  const guarded = await GuardedGateway.start(backends, { policies }, { failureHandling })
  try {
    const readState = async () => (await guarded.gateway.status()).backends[1]?.health
    await eventually('both lists', async () => (await readState()) === 'healthy')
    await payroll.close()
    await eventually('the backend is found unreachable', async () => (await readState()) === 'unhealthy')
    for (const ask of Object.values(guarded.eras))
      for (const list of LISTS) {
        const missed = await ask(finance, list)
        assert.is(missed.json.error.message, 'The backend "payroll" can’t be reached.', list)
        const { json, text } = await ask(others, list)
        assert.ok(json.result, text)
        assert.not.match(text, 'payroll')
      }
    const { json } = await guarded.modern(others, 'tools/list')
    assert.equal(
      json.result.tools.map(({ name }: { name: string }) => name),
      ['docs_t'],
    )
    const back = await server(payroll.port)
    await eventually(
      'the whole list',
      async () => (await guarded.modern(finance, 'tools/list')).json.result !== undefined,
    )
    await back.close()
  } finally {
    await guarded.close()
    await docs.close()
  }
})

test('a backend that was never reached affects everybody’s lists and is named to nobody', async () => {
  const docs = await server()
  const payroll = await server()
  await payroll.close()
  const backends = [
    { name: 'docs', url: docs.url },
    { name: 'payroll', url: payroll.url },
  ]
  const guarded = await GuardedGateway.start(backends, { policies }, { failureHandling })
  try {
    for (const ask of Object.values(guarded.eras))
      for (const claims of [finance, others])
        for (const list of LISTS) {
          const { json } = await ask(claims, list)
          assert.is(json.error.message, 'The backend can’t be reached.', list)
        }
  } finally {
    await guarded.close()
    await docs.close()
  }
})

test.run()
