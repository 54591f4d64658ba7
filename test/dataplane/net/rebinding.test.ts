/** Tests DNS rebinding: a name has a public address when it is checked, and this machine's when it is called. */
import dns, { type LookupAddress } from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'
import { type AddressInfo, createServer, type LookupFunction, type Server } from 'node:net'
import { request } from 'undici'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createDispatcher } from '../../../dataplane/net/connect.ts'
import { createGuardedFetch } from '../../../dataplane/net/guarded-fetch.ts'
import { eventually } from '../../support/eventually.ts'
import { startGateway } from '../../support/gateway/gateway.ts'
import { REDIRECT, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'

const NAME = 'rebinds.example'
/** Public by its form, and assigned to nobody. */
const PUBLIC = '4000::1'
const PRIVATE = ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:127.0.0.1']

const real = dns.lookup
/** The name's addresses in this order; the last one stays. */
let answers: readonly string[][] = []
let lookups = 0
let victim: Server
let connections = 0
let port = 0

const buildAddress = (address: string): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 })

/** The system resolver as an attacker's name server makes it answer. */
const lookup: LookupFunction = (name, options, callback) => {
  if (name !== NAME) return void (real as LookupFunction)(name, options, callback)
  const found = (answers[Math.min(lookups++, answers.length - 1)] as string[]).map(buildAddress)
  const [first] = found as [LookupAddress]
  if (options.all === true) callback(null, found)
  else callback(null, first.address, first.family)
}

test.before(async () => {
  Object.assign(dns, { lookup })
  syncBuiltinESMExports()
  victim = createServer((socket) => {
    connections++
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret')
  })
  await new Promise<void>((resolve) => victim.listen(0, '127.0.0.1', resolve))
  port = (victim.address() as AddressInfo).port
})
test.before.each(() => {
  lookups = 0
  connections = 0
})
test.after(() => {
  Object.assign(dns, { lookup: real })
  syncBuiltinESMExports()
  victim.close()
})

const outcome = (pending: Promise<unknown>): Promise<string> =>
  pending.then(
    () => 'let through',
    (error: Error & { code?: string }) => error.code ?? error.name,
  )

test('without a guard the machine is reached by this name', async () => {
  answers = [['127.0.0.1']]
  assert.is(await (await fetch(`http://${NAME}:${port}/`)).text(), 'secret')
})

for (const bad of PRIVATE)
  test(`a document: the checked address is the one connected to, and a later look-up that gives ${bad} is refused`, async () => {
    answers = [[PUBLIC], [bad]]
    const guardedFetch = createGuardedFetch({ connectTimeoutMs: 100, timeoutMs: 2_000 })
    const url = `http://${NAME}:${port}/`
    assert.is.not(await outcome(guardedFetch(url)), 'the address is allowed')
    assert.is(lookups, 1, 'the address that was checked is the one that was called')
    assert.is(await outcome(guardedFetch(url)), 'ERR_ADDRESS_REFUSED')
    assert.is(connections, 0)
    await guardedFetch.close()
  })

test('a pool resolves the name at each connection, and a mixed answer is refused', async () => {
  answers = [[PUBLIC], ['127.0.0.1'], [PUBLIC, '127.0.0.1'], ['127.0.0.1', PUBLIC]]
  const origin = `http://${NAME}:${port}`
  const dispatcher = createDispatcher({ origin, connectTimeoutMs: 100 })
  assert.is.not(await outcome(request(origin, { dispatcher })), 'the address is allowed')
  for (let turn = 0; turn < 3; turn++) assert.is(await outcome(request(origin, { dispatcher })), 'ERR_ADDRESS_REFUSED')
  assert.is(connections, 0)
  await dispatcher.destroy()
})

test('if an identity provider’s name changes to this machine, the login ends without a request', async () => {
  answers = [[PUBLIC], ['127.0.0.1']]
  const server = await startAuthServer({
    authServer: {
      upstreamProviders: [
        {
          name: 'corp',
          type: 'oauth2',
          oauth2Config: {
            authorizationEndpoint: `https://${NAME}:${port}/authorize`,
            tokenEndpoint: `https://${NAME}:${port}/token`,
            clientId: 'gateway',
          },
        },
      ],
    },
  })
  try {
    const client = await TestClient.register(server.issuer)
    const { url } = await client.agent.follow(client.authorizeUrl(), (at) => at.includes(NAME))
    const state = new URL(url).searchParams.get('state')
    lookups = 1
    const back = await client.agent.get(`${server.issuer}/oauth/callback?state=${state}&code=anything`)
    const location = back.headers.get('location') as string
    assert.ok(location.startsWith(REDIRECT))
    assert.is(new URL(location).searchParams.get('error'), 'server_error')
    assert.ok(lookups > 1, 'it was looked up')
    assert.is(connections, 0)
    assert.match(JSON.stringify(server.gateway.lines), 'ERR_ADDRESS_REFUSED')
    assert.not.ok(location.includes(`:${port}`), 'it is not reported either')
  } finally {
    await server.close()
  }
})

test('telemetry is not sent to a name that leads to an address that is never called', async () => {
  answers = [['0.0.0.0'], [PUBLIC, '169.254.169.254']]
  const openTelemetry = {
    enabled: true,
    endpoint: `http://${NAME}:${port}`,
    insecure: true,
    tracing: { enabled: true },
  }
  const gateway = await startGateway({
    backends: [],
    telemetry: { openTelemetry: { ...openTelemetry, metrics: { enabled: true } } },
  })
  try {
    await eventually('it was looked up', async () => lookups > 1)
    await eventually('it is told', async () =>
      gateway.lines.some(({ what, reason }) => what === 'metrics' && reason === 'ERR_ADDRESS_REFUSED'),
    )
    assert.is(connections, 0)
  } finally {
    await gateway.close()
  }
})

test.run()
