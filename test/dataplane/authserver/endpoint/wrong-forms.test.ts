/**
 * Sends forms with wrong values of every kind to every endpoint that accepts one: each gets a clear answer and consumes
 * nothing.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { linkIn, openLink, sendForm } from '../../../support/identity/linking.ts'
import { parseConsent } from '../../../support/identity/user-agent.ts'
import { encodeForm, FORM, isOAuthError, notRefused, VALUES } from '../../../support/identity/wrong-forms.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { findButton, SessionsPage } from '../sessions/pages.ts'

/** Returns whether this is a page that says what is wrong and what to do. */
const isProblemPage = ({ status, headers }: Response, text: string): boolean =>
  status === 400 && (headers.get('content-type') ?? '').startsWith('text/html') && text.includes('<h1>')

let raw: RawServer
let server: AuthServerUnderTest
let id: string
let client: TestClient
test.before(async () => {
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  server = await startAuthServer({
    providers: ['corp', 'github'],
    onDemand: ['github'],
    gateway: { backends: [buildInjectingBackend('hub', raw.url)], trustProxyHeaders: true },
  })
  id = (await TestClient.register(server.issuer, { client_name: 'Editor' })).id
})
// Logins are limited for each network, so each test uses another.
let tests = 0
let network = ''
test.before.each(() => {
  network = `192.0.2.${++tests}`
  client = new TestClient(server.issuer, id)
  client.agent.headers['x-forwarded-for'] = network
})
test.after(async () => {
  await server.close()
  await raw.close()
})

const endpointUrl = (endpoint: string) => `${server.issuer}/oauth/${endpoint}`
const browser = () => ({ cookie: client.agent.cookies(new URL(server.issuer).host), 'x-forwarded-for': network })
const post = (url: string, body: string) =>
  fetch(url, { method: 'POST', headers: { 'content-type': FORM, ...browser() }, body, redirect: 'manual' })
const isRedirect = (url: string) => url.startsWith(REDIRECT)

test('a code, a refresh token and an assertion at the token endpoint', async () => {
  const code = (await client.authorize()).get('code') as string
  const own = { client_id: client.id, resource: server.resource }
  const proof = { redirect_uri: REDIRECT, code_verifier: client.verifier }
  const fields = { ...own, ...proof, grant_type: 'authorization_code', code }
  const url = endpointUrl('token')
  assert.equal(await notRefused({ url, fields, free: ['resource'] }, isOAuthError), [])
  // None of these requests used the code.
  const { refresh_token: token } = await readTokens(await client.exchange(code))
  const refresh = { client_id: client.id, grant_type: 'refresh_token', refresh_token: token }
  assert.equal(await notRefused({ url, fields: refresh }, isOAuthError), [])
  await readTokens(await client.refresh(token))
  const assertion = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion: 'e30.e30.AAAA' }
  assert.equal(await notRefused({ url, fields: assertion }, isOAuthError), [])
})

test('tokens at revocation and introspection', async () => {
  const { access_token: token } = await client.login()
  const fields = { client_id: client.id, token }
  for (const endpoint of ['revoke', 'introspect']) {
    assert.equal(await notRefused({ url: endpointUrl(endpoint), fields, free: ['token'] }, isOAuthError), [], endpoint)
    // A text that is not a token is already revoked (RFC 7009 section 2.2), and not active.
    for (const [what, value] of Object.entries(VALUES).filter(([, text]) => text !== '')) {
      const response = await post(endpointUrl(endpoint), encodeForm(fields, { token: value }))
      const text = await response.text()
      assert.is(`${response.status} ${text}`, endpoint === 'revoke' ? '200 ' : '200 {"active":false}', what)
    }
  }
  const active = (await (await client.post('introspect', fields)).json()) as { active: boolean }
  assert.is(active.active, true)
})

/** Begins a login and stops at the consent page. */
async function openQuestion(): Promise<{ readonly action: string; readonly token: string }> {
  const url = client.authorizeUrl()
  const question = parseConsent(await (await client.agent.get(url)).text(), url)
  if (question === undefined) throw new Error('nobody is asked')
  return question
}

test('the form of the consent page', async () => {
  const { action: url, token } = await openQuestion()
  const fields = { token, decision: 'allow' }
  assert.equal(await notRefused({ url, fields, free: ['decision'], headers: browser() }, isProblemPage), [])
  const redirected = (await post(url, encodeForm(fields))).headers.get('location') ?? ''
  assert.ok(new URL((await client.agent.follow(redirected, isRedirect)).url).searchParams.has('code'))
})

test('a decision on the consent page that is not exactly yes is a no', async () => {
  for (const [what, value] of Object.entries(VALUES)) {
    const { action, token } = await openQuestion()
    const location = (await post(action, encodeForm({ token }, { decision: value }))).headers.get('location') ?? ''
    const { url } = await client.agent.follow(new URL(location, action).href, isRedirect)
    assert.is(new URL(url).searchParams.get('error'), 'access_denied', what)
  }
})

test('the form of the link page', async () => {
  const { access_token: token } = await client.login()
  const call = () =>
    postModern(server.gateway.url, 'tools/call', { name: 'hub_t' }, { authorization: `Bearer ${token}` })
  const { form } = await openLink(client.agent, linkIn((await call()).json))
  const { action: url = '', fields = {} } = form ?? {}
  assert.equal(await notRefused({ url, fields, headers: browser() }, isProblemPage), [])
  assert.is((await sendForm(client.agent, form)).status, 200)
  assert.ok((await call()).json.result.content)
})

test('the forms of the sessions page', async () => {
  await client.login()
  const page = SessionsPage.of(server, client.agent)
  const { token, ...rest } = await page.signIn()
  const { url } = page
  for (const more of [{ action: 'sign-out' }, { action: 'revoke-all' }, findButton(rest, 'Revoke Editor')])
    assert.equal(
      await notRefused({ url, fields: { token, ...more }, headers: browser() }, isProblemPage),
      [],
      JSON.stringify(Object.keys(more)),
    )
  assert.match((await page.open()).text, 'Editor')
  assert.match((await page.send({ token, ...findButton(rest, 'Revoke Editor') })).text, 'Access is revoked.')
})

test('the log has no failure of the gateway’s own', async () => {
  assert.equal(
    server.gateway.lines.filter(({ level }) => level === 'error'),
    [],
  )
  await client.login()
})

test.run()
