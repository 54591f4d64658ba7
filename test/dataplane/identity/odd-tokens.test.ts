/** Tests signed tokens with any JSON: each is accepted or refused, and none breaks anything. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { CompactSign, exportJWK, generateKeyPair } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../support/gateway/gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import { answer, type RawServer, startRawServer, tool } from '../../support/servers/raw-server.ts'

const AUDIENCE = 'https://mcp.example'
const { publicKey, privateKey } = await generateKeyPair('ES256')
const keys = [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }]
const idp = createServer((request, response) => {
  response.end(JSON.stringify(request.url === '/keys' ? { keys } : { issuer, jwks_uri: `${issuer}/keys` }))
})
let issuer: string
let backend: RawServer
let gateway: GatewayUnderTest

test.before(async () => {
  await new Promise<void>((resolve) => idp.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(idp.address() as AddressInfo).port}`
  const call = (request: Parameters<typeof answer>[0]) => answer(request, '{"resultType":"complete","content":[]}')
  backend = await startRawServer({ era: 'modern', tools: [tool('t')], call })
  gateway = await startGateway({
    incomingAuth: { type: 'oidc', oidc: { issuer, audience: AUDIENCE } },
    authz: {
      policies: [
        'permit(principal, action, resource) when { principal has claim_ok && principal.claim_ok };',
        'permit(principal in Group::"staff", action, resource);',
        'forbid(principal, action, resource) when { context has claim_odd && context.claim_odd == "x" };',
      ],
    },
    backends: [{ name: 'b', url: backend.url }],
  })
})

test.after(async () => {
  await gateway?.close()
  await backend?.close()
  idp.closeAllConnections()
  await new Promise((resolve) => idp.close(resolve))
})

/** Returns the status of a call with these claims (JSON text), which replace the usual ones. */
async function readStatus(claims: Readonly<Record<string, string>>): Promise<number> {
  const usual = {
    iss: JSON.stringify(issuer),
    aud: JSON.stringify(AUDIENCE),
    sub: '"alice"',
    exp: String(Math.floor(Date.now() / 1000) + 300),
  }
  const members = Object.entries({ ...usual, ...claims }).map(([name, text]) => `${JSON.stringify(name)}:${text}`)
  const token = await new CompactSign(Buffer.from(`{${members.join(',')}}`))
    .setProtectedHeader({ alg: 'ES256', kid: 'k' })
    .sign(privateKey)
  const { status } = await postModern(gateway.url, 'tools/call', { name: 'b_t' }, { authorization: `Bearer ${token}` })
  return status
}

/** Nested deeper than the stack, and just short enough for a header. */
const lists = '['.repeat(5_500) + ']'.repeat(5_500)
const objects = '{"a":'.repeat(1_800) + 1 + '}'.repeat(1_800)
const OK = { ok: 'true' }

const tokens: readonly (readonly [what: string, claims: Readonly<Record<string, string>>, status: number])[] = [
  ['what policies ask for', OK, 200],
  ['lists in lists where nobody looks', { ...OK, act: lists, tsid: lists }, 200],
  ['objects in objects where nobody looks', { ...OK, act: objects }, 200],
  ['scopes that are lists in lists', { ...OK, scope: lists }, 200],
  ['lists in lists where a policy looks', { ...OK, odd: lists }, 403],
  ['objects in objects where a policy looks', { ...OK, odd: objects }, 403],
  ['groups that are lists in lists', { groups: lists }, 403],
  ['groups that are an object', { groups: '{"staff":true,"length":1,"0":"staff"}' }, 403],
  ['groups that are a text', { groups: '"staff"' }, 403],
  ['groups of which one is a text', { groups: '[null,1,["x"],{},"staff"]' }, 200],
  ['a claim within __proto__', { ['__proto__']: '{"ok":true,"groups":["staff"]}' }, 403],
  ['a claim that is true as a text', { ok: '"true"' }, 403],
  ['an end beyond all numbers', { ...OK, exp: '1e999' }, 401],
  ['an end in a list', { ...OK, exp: '[9999999999]' }, 401],
  ['audiences that are lists in lists', { ...OK, aud: lists }, 401],
  ['a subject that is lists in lists', { ...OK, sub: lists }, 401],
  ['a subject with NUL', { ...OK, sub: '"alice\\u0000login"' }, 401],
  ['half a character as subject', { ...OK, sub: '"\\ud800"' }, 401],
  ['half a character in a subject', { ...OK, sub: '"al\\udc00ice"' }, 401],
  ['a subject beyond the basic plane, as an escape', { ...OK, sub: '"\\ud83d\\ude00"' }, 200],
  ['a key that it is bound to', { ...OK, cnf: '{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}' }, 401],
  [
    'a certificate that it is bound to',
    { ...OK, cnf: '{"x5t#S256":"bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}' },
    401,
  ],
  ['a binding of no known kind', { ...OK, cnf: '{}' }, 401],
  ['a binding that is a text', { ...OK, cnf: '""' }, 401],
  ['a binding that is lists in lists', { ...OK, cnf: lists }, 401],
  ['no binding, said by null', { ...OK, cnf: 'null' }, 200],
  // Of duplicate members the last counts, for every reader (RFC 7519 section 4).
  ['a claim that is true first', { ok: 'true,"ok":false' }, 403],
  ['a claim that is true at last', { ok: 'false,"\\u006fk":true' }, 200],
  ['an audience that is this one first', { ...OK, aud: `${JSON.stringify(AUDIENCE)},"aud":"other"` }, 401],
  ['an issuer that is this one first', { ...OK, iss: '"https://other.example","iss":"https://other.example"' }, 401],
  ['an end that is still to come first', { ...OK, exp: '9999999999,"exp":1' }, 401],
  ['an issuer that is lists in lists', { ...OK, iss: lists }, 401],
]
for (const [what, claims, status] of tokens)
  test(`${what}: ${status}`, async () => {
    const before = backend.calls('tools/call').length
    assert.is(await readStatus(claims), status)
    assert.is(backend.calls('tools/call').length - before, status === 200 ? 1 : 0)
    assert.is(await readStatus(OK), 200, 'the next one')
  })

test.run()
