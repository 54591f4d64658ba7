import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Provider } from '../../../dataplane/identity/issuers.ts'
import { verifyTokens } from '../../../dataplane/identity/verify.ts'
import { observeNothing } from '../../../dataplane/telemetry/observe.ts'
import { eventually } from '../../support/eventually.ts'
import { buildVariants, WRONG_VALUES } from '../../support/gateway/wrong-values.ts'
import { recordLog } from '../../support/kept-log.ts'
import { stoppedClock } from '../../support/stopped-clock.ts'

/**
 * Issuers answer with any JSON or with none: a caller then gets 401 or 503, known keys stay, and the next valid answer
 * is used.
 */

const AUDIENCE = 'https://gateway.example/mcp'
/** The time for all retries: each waits half a second after a failure. */
const PATIENCE_MS = 120_000
const inAnHour = Math.floor(Date.now() / 1000) + 3600
const pair = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'k', alg: 'ES256', use: 'sig', key_ops: ['verify'] }

interface Wrong {
  readonly what: string
  answer(response: ServerResponse): unknown
}
type Document = 'discovery' | 'keys' | 'introspection'

/** Faults of a document other than in its content. */
const OUTSIDE: readonly Wrong[] = [
  ...[204, 301, 304, 400, 401, 404, 429, 500, 503].map((status) => ({
    what: `status ${status}`,
    answer: (response: ServerResponse) => response.writeHead(status, { location: '/elsewhere' }).end(),
  })),
  ...['', '{', 'null', '<html>', '\ufeff{}', '{}{}', '\u0000', ...WRONG_VALUES].map((text) => ({
    what: text.slice(0, 40),
    answer: (response: ServerResponse) => response.end(text),
  })),
  { what: 'two megabytes', answer: (response) => response.end(`{"a":"${'x'.repeat(2_000_000)}"}`) },
  { what: 'bytes that are no text', answer: (response) => response.end(Buffer.alloc(100, 0xff)) },
  { what: 'deep', answer: (response) => response.end(`{"keys":${'['.repeat(30_000)}${']'.repeat(30_000)}}`) },
  {
    what: 'an end in the middle',
    answer: (response) => {
      response.writeHead(200, { 'content-length': '100' }).write('{"keys":')
      setImmediate(() => response.destroy())
    },
  },
  { what: 'an end at once', answer: (response) => response.destroy() },
]

const server = createServer((request, response) => {
  const [, number = '', document = ''] = (request.url ?? '').split('/')
  const serving = served[Number(number)]
  if (serving === undefined) return response.writeHead(404).end()
  const requested = document === '.well-known' ? 'discovery' : document
  if (requested === serving.document && serving.isWrong) return serving.wrong.answer(response)
  return response.end(JSON.stringify(buildGood(Number(number))[requested as Document]))
})
const served: { readonly document: Document; readonly wrong: Wrong; isWrong: boolean }[] = []

const readIssuer = (number: number) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/${number}`
const buildGood = (number: number): Record<Document, object> => ({
  discovery: {
    issuer: readIssuer(number),
    jwks_uri: `${readIssuer(number)}/keys`,
    introspection_endpoint: `${readIssuer(number)}/introspection`,
  },
  keys: { keys: [jwk] },
  introspection: {
    active: true,
    iss: readIssuer(number),
    sub: 's',
    aud: [AUDIENCE],
    exp: inAnHour,
    nbf: 1,
    token_use: 'access',
    scope: 'a',
  },
})

test.before(() => new Promise<void>((done) => server.listen(0, '127.0.0.1', done)))
test.after(() => {
  server.closeAllConnections()
  server.close()
})

/** Returns an issuer that answers wrongly when asked for this document, its provider and its tokens. */
function wrongIssuer(document: Document, wrong: Wrong, isWrong = true) {
  const number = served.push({ document, wrong, isWrong }) - 1
  const issuer = readIssuer(number)
  const provider: Provider = { issuer, audience: AUDIENCE, introspection: {} }
  const verify = verifyTokens([provider], {
    realm: 'r',
    resourceMetadataUrl: () => undefined,
    log: recordLog().log,
    observe: observeNothing,
  })
  let count = 0
  const jwt = (kid = 'k') =>
    new SignJWT({ iss: issuer, sub: 's', aud: AUDIENCE, exp: inAnHour, jti: String(count++) })
      .setProtectedHeader({ alg: 'ES256', kid })
      .sign(pair.privateKey)
  const first = jwt()
  const opaque = () => `opaque-${count++}`
  /** Authenticates with a token that is not cached; returns `ok` or the error code. */
  async function authenticate(token?: Promise<string>): Promise<string> {
    try {
      await verify(`Bearer ${await (token ?? (document === 'introspection' ? opaque() : first))}`)
      return 'ok'
    } catch (error) {
      return (error as { code?: string }).code ?? String(error)
    }
  }
  return { come: authenticate, jwt, serving: served[number] as { isWrong: boolean }, close: () => verify.close() }
}

const listWrong = (document: Document): Wrong[] => [
  ...OUTSIDE,
  ...buildVariants(buildGood(served.length)[document]).map(({ text, what }) => ({
    what,
    answer: (response: ServerResponse) => response.end(text),
  })),
]

for (const document of ['discovery', 'keys', 'introspection'] as const)
  test(`${document}: the first answer is wrong, the next one is right`, async () => {
    await Promise.all(
      listWrong(document).map(async (wrong) => {
        const { come, serving, close } = wrongIssuer(document, wrong)
        const outcome = await come()
        assert.ok(['ok', 'unauthenticated', 'unavailable'].includes(outcome), `${wrong.what}: ${outcome}`)
        serving.isWrong = false
        await eventually(`${wrong.what}: to be good again`, async () => (await come()) === 'ok', PATIENCE_MS)
        await close()
      }),
    )
  })

const UNUSABLE: readonly string[] = [
  ...WRONG_VALUES,
  ...WRONG_VALUES.filter((value) => value !== '[]').flatMap((value) => [`{"keys":${value}}`, `{"keys":[${value}]}`]),
  '{"keys":[]}',
  JSON.stringify({
    keys: [
      { kty: 'oct', k: 'AAAA', kid: 'k' },
      { ...jwk, use: 'enc' },
      { ...jwk, x: 'AA' },
    ],
  }),
  JSON.stringify({ keys: new Array(101).fill(jwk) }),
]

test('known keys outlive an unusable answer', async () => {
  await Promise.all(
    UNUSABLE.map(async (text) => {
      const issuer = wrongIssuer('keys', { what: text, answer: (response) => response.end(text) }, false)
      const what = text.slice(0, 60)
      assert.is(await issuer.come(), 'ok', what)
      issuer.serving.isWrong = true
      assert.is(await issuer.come(issuer.jwt('unknown')), 'unavailable', what)
      assert.is(await issuer.come(issuer.jwt()), 'ok', what)
      await issuer.close()
    }),
  )
})

test('one bad key among good ones is left out', async () => {
  const keys = { keys: [{ kty: 'oct', k: 'AAAA', kid: 'k' }, 1, { ...jwk, kid: {} }, { ...jwk, x: 'AA' }, jwk] }
  const mixed = wrongIssuer('keys', { what: 'mixed', answer: (response) => response.end(JSON.stringify(keys)) })
  assert.is(await mixed.come(), 'ok')
  await mixed.close()
})

test('null members of a key count as absent', async () => {
  const keys = { keys: [{ ...jwk, use: null, alg: null, key_ops: null, x5c: null }] }
  const nulls = wrongIssuer('keys', { what: 'nulls', answer: (response) => response.end(JSON.stringify(keys)) })
  assert.is(await nulls.come(), 'ok')
  await nulls.close()
})

test('an empty set of keys takes effect after a minute, and keys that come back at once', async () => {
  using clock = stoppedClock()
  const issuer = wrongIssuer('keys', { what: 'empty', answer: (response) => response.end('{"keys":[]}') }, false)
  assert.is(await issuer.come(), 'ok')
  issuer.serving.isWrong = true
  assert.is(await issuer.come(issuer.jwt('unknown')), 'unavailable')
  assert.is(await issuer.come(issuer.jwt()), 'ok')
  clock.pass(61_000)
  // This shows that the set is still empty.
  assert.is(await issuer.come(issuer.jwt('unknown')), 'unauthenticated')
  assert.is(await issuer.come(issuer.jwt()), 'unauthenticated')
  issuer.serving.isWrong = false
  clock.pass(31_000)
  assert.is(await issuer.come(issuer.jwt()), 'ok')
  await issuer.close()
})

test.run()
