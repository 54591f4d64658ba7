import { Agent, request } from 'undici'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const test = suite('what one caller does at a backend is not the others’ loss')
const agents = ['127.0.0.2', '127.0.0.3'].map((localAddress) => new Agent({ localAddress }))
let backend: RawServer
let gateway: GatewayUnderTest
let hanging = 0

test.before(async () => {
  backend = await startRawServer({
    era: 'modern',
    tools: ['hang', 'fail', 'good'].map((name) => `{"name":"${name}","inputSchema":{"type":"object"}}`),
    call(of, res) {
      const name = of.message.params?.['name']
      if (name === 'good') return answer(of, OK_RESULT)
      if (name === 'hang') hanging++
      else res.writeHead(500).end()
      return undefined
    },
  })
  // The circuit stays open until the end of the test, however slow the machine is.
  const circuitBreaker = { enabled: true, failureThreshold: 5, timeout: '1h' }
  gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }], failureHandling: { circuitBreaker } })
})
test.after(async () => {
  await Promise.all(agents.map((agent) => agent.destroy()))
  await gateway.close()
  await backend.close()
})

async function call(from: number, name: string): Promise<{ readonly status: number; readonly text: string }> {
  const { body, headers } = modern('tools/call', { name: `b_${name}`, arguments: {} })
  const options = { method: 'POST', headers: { ...BASE_HEADERS, ...headers }, body } as const
  const { statusCode, body: answered } = await request(gateway.url, {
    ...options,
    dispatcher: agents[from] as Agent,
  })
  return { status: statusCode, text: await answered.text() }
}

test('a caller whose calls keep failing is refused at once, and others are served', async () => {
  const countReached = () => backend.calls('tools/call').length
  for (let time = 0; time < 5; time++) await call(0, 'fail')
  const before = countReached()
  assert.match((await call(0, 'good')).text, 'can’t be reached')
  assert.is(countReached(), before)
  const { health, circuit } = (await gateway.status()).backends[0] as { health: string; circuit: string }
  assert.equal({ health, circuit }, { health: 'degraded', circuit: 'open' })
  assert.match((await call(1, 'good')).text, '"ok"')
})

test('a caller whose calls hang gets half of the connections, and others are served', async () => {
  const statuses: number[] = []
  for (let createdCount = 0; createdCount < 520; createdCount++)
    call(0, 'hang').then(
      ({ status }) => statuses.push(status),
      () => {},
    )
  await eventually('half of the connections to hang', () => hanging === 512 && statuses.length === 8)
  assert.equal([...new Set(statuses)], [429])
  assert.match((await call(1, 'good')).text, '"ok"')
})

test.run()
