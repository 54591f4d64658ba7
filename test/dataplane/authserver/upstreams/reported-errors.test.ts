/** Checks where a provider's errors are reported: to operators in the log and the status, to the user on a page. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerStatus } from '../../../../dataplane/config/status.ts'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'

let server: AuthServerUnderTest
let client: TestClient

test.before(async () => {
  server = await startAuthServer()
  client = await TestClient.register(server.issuer)
})
test.after(() => server.close())
test.before.each(() => {
  client.faults.length = 0
  client.agent.forget(new URL(server.upstream.issuer).host)
})
test.after.each(() => {
  server.upstream.before = undefined
})

const providerStatus = async () => {
  const answer = await fetch(`${server.gateway.adminUrl}/status`)
  const { authServer } = (await answer.json()) as { authServer: AuthServerStatus }
  return authServer.providers[0] as AuthServerStatus['providers'][number]
}
const findLine = (request: string) =>
  server.gateway.lines.find(({ requestId, provider }) => requestId === request && provider === 'corp')

/** Makes the provider redirect browsers with these parameters instead of a code. */
function sendingBack(parameters: Readonly<Record<string, string>>): void {
  server.upstream.before = (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', server.upstream.issuer)
    if (pathname !== '/auth') return false
    const back = new URL(searchParams.get('redirect_uri') ?? '')
    const own = { state: searchParams.get('state') ?? '', iss: server.upstream.issuer }
    for (const [name, value] of Object.entries({ ...own, ...parameters })) back.searchParams.set(name, value)
    response.writeHead(303, { location: back.href }).end()
    return true
  }
}

/** Sets the provider's answer to token requests. */
function answerWith(answer: (request: IncomingMessage, response: ServerResponse) => void): void {
  server.upstream.before = (request, response) => {
    if (!request.url?.startsWith('/token')) return false
    answer(request, response)
    return true
  }
}

/** Returns a failed login's page, the details on it, and the log line of the same request. */
async function fault() {
  const answer = await client.authorize()
  assert.is(answer.get('error'), 'access_denied')
  assert.is(answer.get('state'), 'the-state')
  assert.is(answer.get('iss'), server.issuer)
  const page = client.faults.at(-1) ?? ''
  const [, provider, code, request = ''] =
    /provider <code>(.+?)<\/code>, code <code>(.+?)<\/code>, request <code>(.+?)<\/code>/.exec(page) ?? []
  assert.is(provider, 'corp', page)
  const line = findLine(request)
  assert.ok(line, 'a line under the id that the page names')
  const { lastError } = await providerStatus()
  assert.is(lastError?.code, code)
  assert.ok(lastError?.next)
  return { code, line, lastError }
}

for (const error of [
  ...['invalid_scope', 'unauthorized_client', 'invalid_request', 'server_error', 'temporarily_unavailable'],
  ...['login_required', 'org_internal', 'AADSTS50105'],
])
  test(`${error} from the authorization endpoint is shown on a page, in the log and in the status`, async () => {
    sendingBack({ error, error_description: `Words\r\nabout ${error}: see https://a:b@x.example/y?key=hunter2` })
    const { code, line, lastError } = await fault()
    assert.is(code, error)
    for (const report of [line, lastError]) {
      assert.is(report?.step, 'authorization')
      assert.is(report?.error, error)
      assert.is(report?.errorDescription, `Words about ${error}: see https://x.example/y`)
    }
  })

test('access_denied goes to the client at once, and is logged too', async () => {
  sendingBack({ error: 'access_denied', error_description: 'User is not assigned to the client application.' })
  assert.is((await client.authorize()).get('error'), 'access_denied')
  assert.is(client.faults.length, 0)
  const { lastError, lastRefusal } = await providerStatus()
  assert.is(lastError, null)
  assert.is(lastRefusal?.error, 'access_denied')
  assert.is(lastRefusal?.errorDescription, 'User is not assigned to the client application.')
  const line = server.gateway.lines.findLast(({ error }) => error === 'access_denied')
  assert.is(line?.['errorDescription'], 'User is not assigned to the client application.')
})

test('each unusable answer of the token endpoint has its own code and step', async () => {
  const json = (status: number, body: object) => (_: IncomingMessage, response: ServerResponse) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  const payload = (claims: object) =>
    `${Buffer.from('{"alg":"RS256"}').toString('base64url')}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`
  const now = Math.floor(Date.now() / 1000)
  const good = {
    iss: server.upstream.issuer,
    sub: 'x',
    aud: server.upstream.client.id,
    iat: now,
    exp: now + 60,
    nonce: 'n',
  }
  const withClaims = (claims: object) =>
    json(200, { access_token: 'at', token_type: 'Bearer', id_token: payload({ ...good, ...claims }) })
  const codes: [string, (request: IncomingMessage, response: ServerResponse) => void, object][] = [
    [
      'invalid_client',
      json(401, { error: 'invalid_client', error_description: 'Wrong secret.' }),
      { status: 401, errorDescription: 'Wrong secret.' },
    ],
    ['invalid_scope', json(200, { error: 'invalid_scope' }), { status: 200, error: 'invalid_scope' }],
    [
      'unexpected_status',
      (_, response) => response.writeHead(502, { 'content-type': 'text/html' }).end('<p>secret'),
      { status: 502 },
    ],
    [
      'slow_down',
      json(503, { error: 'slow_down', error_description: 'Later.' }),
      { status: 503, errorDescription: 'Later.' },
    ],
    ['not_json', (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>secret'), {}],
    ['no_access_token', json(200, { token_type: 'Bearer' }), {}],
    ['no_id_token', json(200, { access_token: 'at', token_type: 'Bearer' }), {}],
    ['unsupported_token_type', json(200, { access_token: 'at', token_type: 'mac' }), {}],
    [
      'wrong_iss',
      withClaims({ iss: 'https://other.example' }),
      { claim: 'iss', expected: server.upstream.issuer, found: 'https://other.example' },
    ],
    ['wrong_aud', withClaims({ aud: ['a', 'b'] }), { claim: 'aud', expected: server.upstream.client.id, found: 'a b' }],
    ['wrong_exp', withClaims({ exp: now - 600 }), { claim: 'exp', found: String(now - 600) }],
    ['missing_sub', withClaims({ sub: undefined }), { claim: 'sub' }],
    ['wrong_nonce', withClaims({ nonce: 'secret-nonce' }), { claim: 'nonce' }],
  ]
  for (const [expected, answer, facts] of codes) {
    answerWith(answer)
    const { code, line, lastError } = await fault()
    assert.is(code, expected, JSON.stringify(line))
    for (const report of [line, lastError]) {
      assert.is(report?.step, 'token')
      for (const [name, value] of Object.entries(facts))
        assert.is((report as never)[name], value, `${expected} ${name}`)
    }
  }
  assert.not.match(JSON.stringify(server.gateway.lines), /secret-nonce|<p>secret/)
})

test('an error description repeats nothing that was sent, and no token', async () => {
  const sent: string[] = []
  server.upstream.before = async (request, response) => {
    if (request.url !== '/token') return false
    const form = new URLSearchParams(await new Response(request as never).text())
    sent.push(form.get('code') ?? '', form.get('code_verifier') ?? '', server.upstream.client.secret)
    const words = `Not this: ${sent.join(' ')} eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln`
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: 'invalid_grant', error_description: words }))
    return true
  }
  const { line, lastError } = await fault()
  assert.is(lastError.errorDescription, 'Not this: [redacted] [redacted] [redacted] [redacted]')
  const reports = JSON.stringify([line, lastError, client.faults])
  assert.is(sent.length, 3)
  for (const secret of sent) assert.not.ok(reports.includes(secret))
})

test('metadata of another issuer, or none, is reported before the user is redirected', async () => {
  const other = await startAuthServer({})
  try {
    other.upstream.before = (request, response) => {
      if (!request.url?.startsWith('/.well-known')) return false
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"issuer":"https://other.example"}')
      return true
    }
    const own = await TestClient.register(other.issuer)
    assert.is((await own.authorize()).get('error'), 'access_denied')
    assert.match(own.faults[0] ?? '', 'wrong_issuer')
    const line = other.gateway.lines.find(({ code }) => code === 'wrong_issuer')
    assert.is(line?.['step'], 'metadata')
    assert.is(line?.['found'], 'https://other.example')
  } finally {
    await other.close()
  }
})

interface ProviderAnswer {
  readonly status: number
  readonly type: string
  readonly body: Record<string, unknown> | string
}
/** Edits the provider's answer at a path. */
const editAnswer =
  (path: string, edit: (body: Record<string, unknown>) => Partial<ProviderAnswer>) =>
  (request: IncomingMessage, response: ServerResponse): false => {
    if (!request.url?.startsWith(path)) return false
    const end = response.end.bind(response)
    response.end = ((text: unknown) => {
      const { status = 200, type = 'application/json', body } = edit(JSON.parse(String(text)))
      const sent = typeof body === 'string' ? body : JSON.stringify(body ?? JSON.parse(String(text)))
      response.statusCode = status
      response.setHeader('content-type', type)
      response.setHeader('content-length', Buffer.byteLength(sent))
      return end(sent)
    }) as typeof response.end
    return false
  }

const buildForm = (body: Record<string, unknown>) =>
  new URLSearchParams(Object.entries(body).map(([name, value]): [string, string] => [name, String(value)])).toString()
const withoutType = ({ token_type: _, ...rest }: Record<string, unknown>) => rest
const oddTokens: Readonly<Record<string, (body: Record<string, unknown>) => Partial<ProviderAnswer>>> = {
  'as text/plain': () => ({ type: 'text/plain' }),
  'as a form': (body) => ({ type: 'application/x-www-form-urlencoded', body: buildForm(body) }),
  'at 201, after a byte order mark': (body) => ({ status: 201, body: `\ufeff${JSON.stringify(body)}` }),
  'as a form under another type': (body) => ({ type: 'text/plain', body: buildForm(body) }),
  'as JSON under the type of a form': () => ({ type: 'application/x-www-form-urlencoded' }),
  'with an empty token_type and an error that is 0': (body) => ({ body: { ...body, token_type: ' ', error: 0 } }),
  'with digits as a token': (body) => ({ body: { ...body, access_token: 12_345 } }),
  'without token_type': (body) => ({ body: withoutType(body) }),
  'with null members': (body) => ({
    body: { ...body, refresh_token: null, scope: null, expires_in: null, token_type: null, error: null },
  }),
  'with a list of scopes and a lifetime that is none': (body) => ({
    body: { ...body, scope: ['openid'], expires_in: 'soon' },
  }),
}
test('an OpenID provider’s tokens are read in other forms, too', async () => {
  for (const [what, edit] of Object.entries(oddTokens)) {
    client.agent.forget(new URL(server.upstream.issuer).host)
    server.upstream.before = editAnswer('/token', edit)
    const answer = await client.authorize()
    assert.ok(answer.has('code'), `${what}: ${JSON.stringify((await providerStatus()).lastError)}`)
  }
  // Accepts only form parameters and refuses HTTP Basic.
  server.upstream.before = (request, response) => {
    if (!request.url?.startsWith('/token') || request.headers.authorization === undefined) return false
    response.writeHead(401, { 'content-type': 'application/json' }).end('{"error":"invalid_client"}')
    return true
  }
  client.agent.forget(new URL(server.upstream.issuer).host)
  assert.ok((await client.authorize()).has('code'), 'the secret in the form')
})

test('an OpenID provider’s metadata and keys are read in other forms, too', async () => {
  const odd = await startAuthServer()
  const nulls = { registration_endpoint: null, token_endpoint_auth_methods_supported: null, scopes_supported: null }
  const metadata = editAnswer('/.well-known/', (body) => ({
    type: 'text/plain',
    body: {
      ...body,
      ...nulls,
      authorization_response_iss_parameter_supported: 'true',
      id_token_signing_alg_values_supported: (body['id_token_signing_alg_values_supported'] as string[]).join(' '),
    },
  }))
  const redirect = ({ url }: IncomingMessage, response: ServerResponse): boolean => {
    if (url !== '/.well-known/openid-configuration') return false
    response.writeHead(302, { location: `${url}?again` }).end()
    return true
  }
  const keys = editAnswer('/jwks', ({ keys: own }) => ({
    type: 'application/octet-stream',
    body: { keys: [null, 'x', ...(own as object[]).map((key) => ({ ...key, use: null, alg: null, x5c: null }))] },
  }))
  odd.upstream.before = (request, response) =>
    redirect(request, response) || metadata(request, response) || keys(request, response)
  try {
    const user = await TestClient.register(odd.issuer)
    const answer = await user.authorize()
    assert.ok(answer.has('code'), JSON.stringify(odd.gateway.lines.filter(({ provider }) => provider !== undefined)))
  } finally {
    await odd.close()
  }
})

test.run()
