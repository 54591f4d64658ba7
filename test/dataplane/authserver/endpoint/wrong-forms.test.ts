/** Forms with wrong values of every kind, at every endpoint that takes one: a clear answer, and nothing is lost by it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { injecting } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  startAuthServer,
  TestClient,
  tokensOf,
} from '../../../support/identity/auth-server.ts'
import { linkIn, openLink, sendForm } from '../../../support/identity/linking.ts'
import { consentOf } from '../../../support/identity/user-agent.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { buttonOf, SessionsPage } from '../sessions/pages.ts'

const FORM = 'application/x-www-form-urlencoded'

/** Values as they stand in a form, encoded or not. */
const VALUES: Readonly<Record<string, string>> = {
  nothing: '',
  'a NUL, encoded': '%00',
  'a NUL as it is': '\0',
  'a NUL in the middle': 'a%00b',
  'a lone surrogate': '%ED%A0%80',
  'bytes that are no UTF-8': '%FF%FE%C0%80',
  'half an escape': '%E0%A4%A',
  'a percent sign': '%',
  'lines of a header': 'x%0D%0ASet-Cookie:%20a=b',
  'the name of a prototype': '__proto__',
  'a method of all objects': 'toString',
  'JSON, an object': '%7B%22a%22:%5B1%5D%7D',
  'a number': '1e999',
  'a JWT without a signature': 'eyJhbGciOiJub25lIn0.eyJzdWIiOnt9fQ.',
  'a JWT whose parts are no objects': 'W10.bnVsbA.AAAA',
  'a path': '../../../etc/passwd',
  'dots as between the parts of a token': '....',
  'what an array is called': '[object Object]',
  'right to left': '%E2%80%AE%F0%9F%98%80',
  'twenty thousand letters': 'x'.repeat(20_000),
  'twenty thousand bytes that are no UTF-8': '%FF'.repeat(6_000),
}

/** What does not depend on the fields: not one of these is the form of anything. */
const BODIES: Readonly<Record<string, string>> = {
  nothing: '',
  'only separators': '&'.repeat(10_000),
  'names without values': '=&=&='.repeat(1_000),
  'a NUL': '\0=\0',
  'ten thousand fields': Array.from({ length: 10_000 }, (_, index) => index.toString(36)).join('=&'),
  'a field ten thousand times': 'token=x&'.repeat(8_000),
  JSON: '{"token":"x","grant_type":"refresh_token","client_id":["x"]}',
  'fields in brackets': 'token[]=x&token[a]=y&grant_type[]=refresh_token&client_id[__proto__]=z',
}

/** A form with right fields, as it is sent for one test. */
interface Target {
  readonly url: string
  readonly fields: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** Fields in which some wrong values mean something else that is right, such as none where there may be none. */
  readonly free?: readonly string[]
}

interface Attempt {
  readonly what: string
  readonly body: string
  readonly type?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
}

const encoded = (fields: Readonly<Record<string, string>>, raw: Readonly<Record<string, string>> = {}): string =>
  Object.keys({ ...fields, ...raw })
    .map((name) => `${name}=${raw[name] ?? encodeURIComponent(fields[name] as string)}`)
    .join('&')

function attemptsAt({ fields, free = [] }: Target): Attempt[] {
  const good = encoded(fields)
  const attempts: Attempt[] = Object.entries(BODIES).map(([what, body]) => ({ what, body }))
  for (const name of Object.keys(fields)) {
    attempts.push({ what: `${name} twice`, body: `${good}&${name}=x` })
    attempts.push({ what: `${name} twice, alike`, body: `${good}&${encoded({ [name]: fields[name] as string })}` })
    if (free.includes(name)) continue
    for (const [what, value] of Object.entries(VALUES))
      attempts.push({ what: `${name} is ${what}`, body: encoded(fields, { [name]: value }) })
    const { [name]: _, ...others } = fields
    attempts.push({ what: `${name} is absent`, body: encoded(others) })
  }
  for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x', 'x', '; charset=utf-8'])
    attempts.push({ what: `as ${type}`, body: good, type })
  attempts.push({ what: 'in UTF-16', body: Buffer.from(good, 'utf16le').toString('latin1') })
  attempts.push({ what: 'more than it may be', body: `${good}&x=${'y'.repeat(70_000)}` })
  return attempts
}

/** Sends them all, some at a time; gives those that were not refused as `isRefused` wants. */
async function notRefused(
  target: Target,
  isRefused: (response: Response, text: string) => boolean,
): Promise<readonly string[]> {
  const wrong: string[] = []
  const waiting = attemptsAt(target)
  assert.ok(waiting.length > 30)
  const work = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const headers = { accept: 'text/html', 'content-type': next.type ?? FORM, ...target.headers }
      const request = { method: 'POST', redirect: 'manual', headers, body: Buffer.from(next.body, 'latin1') } as const
      const response = await fetch(target.url, request)
      const text = await response.text()
      if (!isRefused(response, text)) wrong.push(`${next.what}: ${response.status}`)
    }
  }
  await Promise.all(Array.from({ length: 4 }, work))
  return wrong
}

const ERRORS = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'invalid_target',
  'unsupported_grant_type',
])
/** An answer of RFC 6749 section 5.2. */
function isOAuthError({ status, headers }: Response, text: string): boolean {
  const { error, error_description: description } = JSON.parse(text) as { error: string; error_description: string }
  const isFramed = headers.get('content-type') === 'application/json' && headers.get('cache-control') === 'no-store'
  return [400, 401, 413].includes(status) && isFramed && ERRORS.has(error) && description.length > 10
}
/** A page that says what is wrong and what to do. */
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
    gateway: { backends: [injecting('hub', raw.url)], trustProxyHeaders: true },
  })
  id = (await TestClient.register(server.issuer, { client_name: 'Editor' })).id
})
// Each test is somebody else in a network of its own, in which so many logins may begin at once.
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

const at = (endpoint: string) => `${server.issuer}/oauth/${endpoint}`
const browser = () => ({ cookie: client.agent.cookies(new URL(server.issuer).host), 'x-forwarded-for': network })
const post = (url: string, body: string) =>
  fetch(url, { method: 'POST', headers: { 'content-type': FORM, ...browser() }, body, redirect: 'manual' })
const isRedirect = (url: string) => url.startsWith(REDIRECT)

test('a code, a refresh token and an assertion at the token endpoint', async () => {
  const code = (await client.authorize()).get('code') as string
  const own = { client_id: client.id, resource: server.resource }
  const proof = { redirect_uri: REDIRECT, code_verifier: client.verifier }
  const fields = { ...own, ...proof, grant_type: 'authorization_code', code }
  const url = at('token')
  assert.equal(await notRefused({ url, fields, free: ['resource'] }, isOAuthError), [])
  // None of these was its use.
  const { refresh_token: token } = await tokensOf(await client.exchange(code))
  const refresh = { client_id: client.id, grant_type: 'refresh_token', refresh_token: token }
  assert.equal(await notRefused({ url, fields: refresh }, isOAuthError), [])
  await tokensOf(await client.refresh(token))
  const assertion = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion: 'e30.e30.AAAA' }
  assert.equal(await notRefused({ url, fields: assertion }, isOAuthError), [])
})

test('what is revoked and introspected', async () => {
  const { access_token: token } = await client.login()
  const fields = { client_id: client.id, token }
  for (const endpoint of ['revoke', 'introspect']) {
    assert.equal(await notRefused({ url: at(endpoint), fields, free: ['token'] }, isOAuthError), [], endpoint)
    // A text that is no token is none that has to end (RFC 7009 section 2.2), and none that is active.
    for (const [what, value] of Object.entries(VALUES).filter(([, text]) => text !== '')) {
      const response = await post(at(endpoint), encoded(fields, { token: value }))
      const text = await response.text()
      assert.is(`${response.status} ${text}`, endpoint === 'revoke' ? '200 ' : '200 {"active":false}', what)
    }
  }
  const active = (await (await client.post('introspect', fields)).json()) as { active: boolean }
  assert.is(active.active, true)
})

/** Begins a login that stays at the page where its user is asked. */
async function asked(): Promise<{ readonly action: string; readonly token: string }> {
  const url = client.authorizeUrl()
  const question = consentOf(await (await client.agent.get(url)).text(), url)
  if (question === undefined) throw new Error('nobody is asked')
  return question
}

test('the answer of the consent page', async () => {
  const { action: url, token } = await asked()
  const fields = { token, decision: 'allow' }
  assert.equal(await notRefused({ url, fields, free: ['decision'], headers: browser() }, isProblemPage), [])
  const onwards = (await post(url, encoded(fields))).headers.get('location') ?? ''
  assert.ok(new URL((await client.agent.follow(onwards, isRedirect)).url).searchParams.has('code'))
})

test('an answer of the consent page that is not plainly yes is no', async () => {
  for (const [what, value] of Object.entries(VALUES)) {
    const { action, token } = await asked()
    const location = (await post(action, encoded({ token }, { decision: value }))).headers.get('location') ?? ''
    const { url } = await client.agent.follow(new URL(location, action).href, isRedirect)
    assert.is(new URL(url).searchParams.get('error'), 'access_denied', what)
  }
})

test('the form of a link', async () => {
  const { access_token: token } = await client.login()
  const call = () =>
    postModern(server.gateway.url, 'tools/call', { name: 'hub_t' }, { authorization: `Bearer ${token}` })
  const { form } = await openLink(client.agent, linkIn((await call()).json))
  const { action: url = '', fields = {} } = form ?? {}
  assert.equal(await notRefused({ url, fields, headers: browser() }, isProblemPage), [])
  assert.is((await sendForm(client.agent, form)).status, 200)
  assert.ok((await call()).json.result.content)
})

test('the forms of what is linked', async () => {
  await client.login()
  const page = SessionsPage.of(server, client.agent)
  const { token, ...shown } = await page.signIn()
  const { url } = page
  for (const more of [{ action: 'sign-out' }, { action: 'revoke-all' }, buttonOf(shown, 'Revoke Editor')])
    assert.equal(
      await notRefused({ url, fields: { token, ...more }, headers: browser() }, isProblemPage),
      [],
      JSON.stringify(Object.keys(more)),
    )
  assert.match((await page.open()).text, 'Editor')
  assert.match((await page.send({ token, ...buttonOf(shown, 'Revoke Editor') })).text, 'Access is revoked.')
})

test('nothing of it has failed here', async () => {
  assert.equal(
    server.gateway.lines.filter(({ level }) => level === 'error'),
    [],
  )
  await client.login()
})

test.run()
