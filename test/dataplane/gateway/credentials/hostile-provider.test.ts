import { gzipSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildExchangingBackend, startExchangingGateway } from '../../../support/gateway/exchanging-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { buildExchanged, respond, type TestTokenEndpoint } from '../../../support/network/token-endpoint.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

const SECRET = 'what-the-provider-says'
const VALUES: readonly unknown[] = [null, true, 7, '', [], {}, [SECRET], { a: SECRET }]

/** Invalid bodies of a token endpoint's answer. */
const bodies: readonly (readonly [what: string, body: unknown])[] = [
  ...VALUES.map((value) => [`the body ${JSON.stringify(value)}`, JSON.stringify(value)] as const),
  ['no JSON', `<html>${SECRET}`],
  ...VALUES.map((value) => [`access_token ${JSON.stringify(value)}`, buildExchanged(value as string)] as const),
  ['a token that breaks out of its header', buildExchanged(`${SECRET}\r\nx-injected: 1`)],
  ['a token with a space', buildExchanged(`${SECRET} a`)],
  ['a huge token', buildExchanged('x'.repeat(33 * 1024))],
  ['a huge body', buildExchanged('x'.repeat(1024 * 1024))],
  ...VALUES.map(
    (value) => [`token_type ${JSON.stringify(value)}`, buildExchanged(SECRET, { token_type: value })] as const,
  ),
  ['a token that is bound to a key', buildExchanged(SECRET, { token_type: 'DPoP' })],
  ['a token that is none', buildExchanged(SECRET, { token_type: 'N_A' })],
  ...VALUES.map(
    (value) =>
      [`issued_token_type ${JSON.stringify(value)}`, buildExchanged(SECRET, { issued_token_type: value })] as const,
  ),
  ['no issued_token_type', buildExchanged(SECRET, { issued_token_type: undefined })],
  ['a refresh token', buildExchanged(SECRET, { issued_token_type: 'urn:ietf:params:oauth:token-type:refresh_token' })],
  ...[
    ...[null, true, -1, 0, [], {}, ['600'], '', '0', '-600', '+600', '6e2', '0x600', '600.5', ' 600', '600\n', '٦٠٠'],
    ...['9'.repeat(11), 'NaN', 'Infinity'],
  ].map((value) => [`expires_in ${JSON.stringify(value)}`, buildExchanged(SECRET, { expires_in: value })] as const),
]

async function callThrough(answerToken: TestTokenEndpoint['answer']) {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)])
  gateway.endpoint.answer = answerToken
  const headers = await gateway.bearer('alice')
  const { json, status } = await postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)
  const visible = JSON.stringify([json, gateway.lines, await gateway.status()])
  const sent = raw.calls('tools/call').length
  await gateway.close()
  await raw.close()
  return { json, status, visible, sent, token: headers.authorization.slice('Bearer '.length) }
}

test('whatever a provider answers, no call is sent without a good token, and none of the answer is shown', async () => {
  for (const [what, body] of bodies) {
    const { json, visible, sent, token } = await callThrough((_request, response) => respond(response, 200, body))
    assert.match(json.error?.message ?? '', /credential for the backend "api" is unavailable/, what)
    assert.is(sent, 0, what)
    assert.not.match(visible, SECRET, what)
    assert.not.ok(visible.includes(token), what)
  }
})

/** Answers that are invalid because of how they arrive. */
const paces: Readonly<Record<string, TestTokenEndpoint['answer']>> = {
  'nothing at all': () => undefined,
  'a head alone': (_request, response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders(),
  'a body byte by byte': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write(`{"access_token":"${SECRET}`)
    const drip = setInterval(() => response.write('x'), 200)
    response.on('close', () => clearInterval(drip))
  },
  'a good body that is cut off': (_request, response) => {
    const body = JSON.stringify(buildExchanged(SECRET))
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length + 1 })
    response.write(body, () => response.destroy())
  },
  'gzip that is cut off': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
    response.end(gzipSync(JSON.stringify(buildExchanged(SECRET))).subarray(0, -1))
  },
  'a head that is too long': (_request, response) =>
    void response.writeHead(200, { 'x-long': 'x'.repeat(64 * 1024) }).end(JSON.stringify(buildExchanged(SECRET))),
}

test('if a provider answers slowly, in part or not at all, calls time out, and none is sent without a token', async () => {
  await Promise.all(
    Object.entries(paces).map(async ([what, answerToken]) => {
      const { json, visible, sent } = await callThrough(answerToken)
      assert.match(json.error?.message ?? '', /credential for the backend "api" (is unavailable|is awaited)/, what)
      assert.is(sent, 0, what)
      assert.not.match(visible, SECRET, what)
    }),
  )
})

test('a redirect is not followed, as it would send the token elsewhere', async () => {
  const paths: string[] = []
  const { json } = await callThrough(({ path }, response) => {
    paths.push(path)
    response.writeHead(307, { location: '/elsewhere' }).end()
  })
  assert.ok(json.error)
  assert.equal([...new Set(paths)], ['/token'])
})

test('a refusal is reported as such, and only known error codes are logged', async () => {
  for (const error of ['invalid_grant', SECRET, { [SECRET]: 1 }, null]) {
    const { json, visible } = await callThrough((_request, response) =>
      respond(response, 400, { error, error_description: SECRET }),
    )
    assert.match(json.error?.message ?? '', /its token endpoint refused the exchange/)
    assert.not.match(visible, SECRET)
  }
})

test.run()
