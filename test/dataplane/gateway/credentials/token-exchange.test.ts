import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import {
  AUDIENCE,
  buildExchangingBackend,
  CLIENT,
  startExchangingGateway,
} from '../../../support/gateway/exchanging-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { buildExchanged, decodeClaims, readSubject, respond } from '../../../support/network/token-endpoint.ts'
import { answer, OK_RESULT, startRawServer, tool } from '../../../support/servers/raw-server.ts'

for (const era of ['modern', 'legacy', 'both'] as const) {
  test(`a ${era} backend gets the exchanged token and never the caller’s`, async () => {
    const result = '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'
    const raw = await startRawServer({ era, call: (request) => answer(request, result) })
    const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)])
    const headers = await gateway.bearer('alice')
    for (const mode of ['modern', 'legacy'] as const) {
      const { client } = await connect(gateway.url, mode, { headers })
      assert.equal(
        (await client.listTools()).tools.map(({ name }) => name),
        ['api_t'],
      )
      assert.is(readText(await client.callTool({ name: 'api_t', arguments: {} })), 'ok')
      await client.close()
    }
    const { client } = await connectV1(gateway.url, { headers })
    assert.is(readText(await client.callTool({ name: 'api_t', arguments: {} })), 'ok')
    await client.close()
    const token = headers.authorization.slice('Bearer '.length)
    for (const { headers: sent, body } of raw.seen) {
      assert.match(sent.authorization ?? '', /^Bearer for-(alice|gateway)-at-api-\d+$/)
      assert.not.ok(JSON.stringify([sent, body]).includes(token))
    }
    for (const { headers: sent } of raw.calls('tools/list')) assert.match(sent.authorization ?? '', /for-alice-at-api/)
    const exchanges = gateway.endpoint.requests.filter(({ form }) => form['grant_type']?.endsWith('token-exchange'))
    assert.is(exchanges.length, 1, 'it is cached for the next calls')
    assert.is(exchanges[0]?.form['subject_token'], token)
    assert.not.ok(JSON.stringify([gateway.lines, await gateway.status()]).includes(token))
    assert.not.match(JSON.stringify([gateway.lines, await gateway.status()]), /for-alice|p%ss/)
    await gateway.close()
    await raw.close()
  })
}

test('the form of the exchange, and the client’s authentication', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startExchangingGateway((endpoint) => [
    buildExchangingBackend('api', raw.url, endpoint, { scopes: ['read', 'write'], subjectTokenType: 'jwt' }),
    buildExchangingBackend('long', raw.url, endpoint, {
      subjectTokenType: 'urn:ietf:params:oauth:token-type:id_token',
      headerName: 'X-Upstream-Token',
    }),
  ])
  const headers = await gateway.bearer('alice')
  await postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)
  await postModern(gateway.url, 'tools/call', { name: 'long_t' }, headers)
  const seen = raw.calls('tools/call').at(-1)?.headers
  assert.match(String(seen?.['x-upstream-token']), /^Bearer for-alice-at-long/)
  assert.is(seen?.authorization, undefined)
  const findRequest = (audience: string) =>
    gateway.endpoint.requests.find(({ form }) => form['audience'] === audience && form['subject_token'] !== undefined)
  assert.equal(findRequest('api')?.form, {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    subject_token: headers.authorization.slice('Bearer '.length),
    audience: 'api',
    scope: 'read write',
  })
  assert.is(findRequest('long')?.form['subject_token_type'], 'urn:ietf:params:oauth:token-type:id_token')
  const encoded = [CLIENT.id, CLIENT.secret].map((part) => encodeURIComponent(part).replaceAll('%20', '+')).join(':')
  for (const { headers: sent } of gateway.endpoint.requests)
    assert.is(sent.authorization, `Basic ${Buffer.from(encoded).toString('base64')}`)
  await gateway.close()
  await raw.close()
})

test('the gateway’s probes carry its own credential, and a backend that asks for one counts as alive', async () => {
  const raw = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before: ({ headers }, res) => {
      if (/^Bearer for-alice/.test(headers.authorization ?? '')) return false
      res.writeHead(401).end()
      return true
    },
  })
  const gateway = await startExchangingGateway((endpoint) => [
    buildExchangingBackend('own', raw.url, endpoint),
    { ...buildExchangingBackend('bare', raw.url, endpoint), credential: withoutClient(endpoint.url) },
  ])
  await eventually('the probes', async () =>
    (await gateway.status()).backends.every(({ health, latencyMs }) => health === 'healthy' && latencyMs !== null),
  )
  // Callers' lists are not counted; an answer to the gateway's own probe is.
  assert.equal(
    (await gateway.status()).backends.map(({ tools, latencyMs }) => [tools, typeof latencyMs]),
    [
      [0, 'number'],
      [0, 'number'],
    ],
  )
  assert.equal([...new Set(raw.seen.map(({ headers }) => headers.authorization?.replace(/\d+$/, '')))].sort(), [
    'Bearer for-gateway-at-own-',
    undefined,
  ])
  const { json } = await postModern(gateway.url, 'tools/call', { name: 'bare_t' }, await gateway.bearer('alice'))
  assert.ok(json.result)
  await gateway.close()
  await raw.close()
})

const withoutClient = (tokenUrl: string) => ({ type: 'tokenExchange' as const, tokenExchange: { tokenUrl } })

test('a token is kept until a minute before its expiry, and obtained once at a time', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)])
  const headers = await gateway.bearer('alice')
  const call = () => postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)
  let life = 65
  gateway.endpoint.answer = async ({ form }, response) => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    respond(response, 200, buildExchanged(`t${form['subject_token'] === undefined ? 'own' : ''}`, { expires_in: life }))
  }
  const exchanges = () => gateway.endpoint.requests.filter(({ form }) => form['subject_token'] !== undefined).length
  await Promise.all(Array.from({ length: 20 }, call))
  assert.is(exchanges(), 1)
  await eventually('its last minute', async () => {
    await call()
    return exchanges() >= 2
  })
  life = 30
  await eventually('a short one', async () => {
    await call()
    return exchanges() >= 3
  })
  const before = exchanges()
  await call()
  assert.is(exchanges(), before + 1, 'a short one serves one call')
  await gateway.close()
  await raw.close()
})

test('a lifetime that is written as text counts', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)])
  let life = '3600'
  gateway.endpoint.answer = (_request, response) => respond(response, 200, buildExchanged('t', { expires_in: life }))
  const callTwice = async (subject: string) => {
    const headers = await gateway.bearer(subject)
    for (const _ of [1, 2])
      assert.ok((await postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)).json.result)
    return gateway.endpoint.requests.filter(({ form }) => readSubject(form['subject_token']) === subject).length
  }
  assert.is(await callTwice('alice'), 1)
  life = '30'
  assert.ok((await callTwice('bob')) > 1, 'a token that ends within the minute is not cached')
  life = '9999999999'
  assert.is(await callTwice('carol'), 1)
  await gateway.close()
  await raw.close()
})

/** Tokens of one user, each with other rights. */
const AUTHORITIES: readonly Readonly<Record<string, unknown>>[] = [
  {},
  { scope: 'read' },
  { scope: 'read write' },
  { scp: ['write'] },
  { scope: 'read', azp: 'agent' },
  { scope: 'read', client_id: 'agent' },
  { scope: 'read', act: { sub: 'agent-1' } },
  { scope: 'read', act: { sub: 'agent-2' } },
  { scope: 'read', act: { sub: 'agent-2', act: { sub: 'agent-1' } } },
  { scope: 'read', acr: 'gold' },
  { authorization_details: [{ type: 'payment', amount: 1 }] },
  { org: 'A' },
  { org: 'B' },
  { groups: ['admins', 'staff'] },
  { groups: ['staff'] },
]

test('an exchanged token is not used for another token of the same user with other rights', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)])
  gateway.endpoint.answer = ({ form }, response) =>
    respond(response, 200, buildExchanged(form['subject_token'] === undefined ? 'own' : `for.${form['subject_token']}`))
  const call = async (index: number, claims: object) => {
    const token = await gateway.idp.mint({ sub: 'alice', aud: AUDIENCE, jti: `${index}`, ...claims })
    const params = { name: 'api_t', arguments: { index } }
    const { json } = await postModern(gateway.url, 'tools/call', params, { authorization: `Bearer ${token}` })
    assert.ok(json.result, JSON.stringify(claims))
  }
  for (const _round of [1, 2]) await Promise.all(AUTHORITIES.map((claims, index) => call(index, claims)))
  // A new token with the same scopes in another order has the same rights.
  await call(2, { scope: 'write read' })
  for (const { headers, message } of raw.calls('tools/call')) {
    const { index } = (message.params?.['arguments'] ?? {}) as { readonly index: number }
    const subject = headers.authorization?.slice('Bearer for.'.length)
    const { jti, ...claims } = decodeClaims(subject) as Readonly<Record<string, unknown>>
    assert.is(jti, `${index}`)
    for (const [name, value] of Object.entries(AUTHORITIES[index] ?? {})) assert.equal(claims[name], value)
  }
  const exchanges = gateway.endpoint.requests.filter(({ form }) => form['subject_token'] !== undefined)
  assert.is(exchanges.length, AUTHORITIES.length)
  await gateway.close()
  await raw.close()
})

test('a client that leaves cancels no exchange', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)])
  const headers = await gateway.bearer('alice')
  const { promise, resolve } = Promise.withResolvers<void>()
  gateway.endpoint.answer = async (_request, response) => {
    await promise
    respond(response, 200, buildExchanged('late'))
  }
  const leaving = new AbortController()
  const left = fetch(gateway.url, { method: 'POST', signal: leaving.signal, headers: { ...headers } }).catch(
    () => 'left',
  )
  const first = postModern(gateway.url, 'tools/list', {}, headers)
  leaving.abort()
  await left
  resolve()
  assert.ok((await first).json.result)
  const exchanges = gateway.endpoint.requests.filter(({ form }) => form['subject_token'] !== undefined)
  assert.is(exchanges.length, 1)
  await gateway.close()
  await raw.close()
})

test('a 401 of the backend obtains another token once and retries once, in both eras', async () => {
  for (const era of ['modern', 'legacy'] as const) {
    let refused = new Set<string | undefined>()
    const raw = await startRawServer({
      era,
      tools: [tool('t')],
      call: (request) => answer(request, OK_RESULT),
      before: ({ headers }, res) => {
        if (!refused.has(headers.authorization) && !refused.has('all')) return false
        res.writeHead(401).end()
        return true
      },
    })
    const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)])
    const headers = await gateway.bearer('alice')
    const call = () => postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)
    assert.ok((await call()).json.result)
    const first = raw.calls('tools/call').at(-1)?.headers.authorization
    refused = new Set([first])
    assert.ok((await call()).json.result, `${era}: with another one`)
    assert.is.not(raw.calls('tools/call').at(-1)?.headers.authorization, first)
    const before = raw.calls('tools/call').length
    refused = new Set(['all'])
    const failed = await call()
    assert.is(failed.json.error?.message, 'The backend "api" refuses your credential.')
    assert.is(raw.calls('tools/call').length, before + 2, 'and no third time')
    await gateway.close()
    await raw.close()
  }
})

test('a provider that is down affects only its own backends, and the error names them and the reason', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startExchangingGateway((endpoint) => [
    buildExchangingBackend('api', raw.url, endpoint),
    { name: 'open', url: raw.url },
  ])
  const headers = await gateway.bearer('alice')
  const call = (name: string) => postModern(gateway.url, 'tools/call', { name }, headers)
  assert.ok((await call('api_t')).json.result)
  gateway.endpoint.answer = (_request, response) => respond(response, 500, { error: 'secret detail of the provider' })
  const bob = await gateway.bearer('bob')
  const ofBob = await postModern(gateway.url, 'tools/call', { name: 'api_t' }, bob)
  assert.ok(ofBob.json.error)
  assert.ok((await postModern(gateway.url, 'tools/call', { name: 'open_t' }, bob)).json.result)
  assert.is(
    ofBob.json.error?.message,
    'The backend "api" can’t be reached. The credential for the backend "api" is unavailable: its token endpoint does not answer as specified.',
  )
  const listed = await postModern(gateway.url, 'tools/list', {}, bob)
  assert.match(JSON.stringify(listed.json.result), /open_t/)
  assert.ok((await call('api_t')).json.result, 'a caller with a cached token is served')
  assert.not.match(JSON.stringify([ofBob.json, gateway.lines, await gateway.status()]), /secret detail/)
  await gateway.close()
  await raw.close()
})

test.run()
