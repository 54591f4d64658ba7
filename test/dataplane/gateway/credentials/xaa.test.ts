/** Tests cross-app access: an identity assertion (ID-JAG) of the identity provider is exchanged at the target. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkGateway } from '../../../../dataplane/config/check/gateway.ts'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { CLIENT } from '../../../support/gateway/exchanging-gateway.ts'
import { startLoginGateway } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { buildExchanged, readSubject, respond, startTokenEndpoint } from '../../../support/network/token-endpoint.ts'
import { answer, type RawServerOptions, startRawServer } from '../../../support/servers/raw-server.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'

const OK = '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'
const TARGET = 'https://target.example'
const RESOURCE = 'https://target.example/mcp'
const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'
const TARGET_CLIENT = { id: 'gateway-at-target', secret: secret('the secret at the target') }

type Xaa = NonNullable<NonNullable<GatewayConfig['backends'][number]['credential']>['xaa']>

async function assertion(claims: Record<string, unknown>, typ = 'oauth-id-jag+jwt'): Promise<string> {
  const payload = {
    iss: 'https://idp.example',
    aud: TARGET,
    resource: RESOURCE,
    client_id: TARGET_CLIENT.id,
    ...claims,
  }
  const signed = await new SignJWT(payload as never)
    .setProtectedHeader({ alg: 'HS256', typ })
    .setExpirationTime('5m')
    .sign(Buffer.from('a key of the identity provider, 32B+'))
  return secret(signed)
}

const buildToken = (token: string, more: object = {}) => ({
  access_token: token,
  issued_token_type: ID_JAG,
  token_type: 'N_A',
  expires_in: 300,
  ...more,
})

/** Starts a gateway with one backend; its identity provider and target record their requests. */
async function startStage(
  xaa: Partial<Xaa> = {},
  { era, before }: Partial<Pick<RawServerOptions, 'era' | 'before'>> = {},
) {
  const raw = await startRawServer({
    era: era ?? 'modern',
    call: (request) => answer(request, OK),
    ...(before === undefined ? {} : { before }),
  })
  const [idp, target] = [await startTokenEndpoint(), await startTokenEndpoint()]
  idp.answer = async ({ form }, response) =>
    respond(response, 200, buildToken(await assertion({ sub: readSubject(form['subject_token']) })))
  target.answer = ({ form }, response) => {
    const who = form['grant_type'] === 'client_credentials' ? 'gateway' : readSubject(form['assertion'])
    respond(response, 200, {
      ...buildExchanged(`token-of-${who}-${target.requests.length}`),
      issued_token_type: undefined,
    })
  }
  const credential = {
    type: 'xaa' as const,
    xaa: {
      idpTokenUrl: idp.url,
      idpClientId: CLIENT.id,
      idpClientSecretFile: 'idp-secret',
      targetTokenUrl: target.url,
      targetClientId: TARGET_CLIENT.id,
      targetClientSecretFile: 'target-secret',
      targetAudience: TARGET,
      targetResource: RESOURCE,
      scopes: ['read', 'write'],
      ...xaa,
    },
  }
  const gateway = await startLoginGateway(
    {
      backends: [
        { name: 'api', url: raw.url, credential },
        { name: 'open', url: raw.url },
      ],
    },
    {
      async prepare(directory) {
        await writeFile(join(directory, 'idp-secret'), CLIENT.secret)
        await writeFile(join(directory, 'target-secret'), TARGET_CLIENT.secret)
      },
    },
  )
  return {
    raw,
    idp,
    target,
    gateway,
    sent: () => raw.calls('tools/call').map(({ headers }) => headers.authorization),
    call: async (headers: Record<string, string>, name = 'api_t') =>
      (await postModern(gateway.url, 'tools/call', { name }, headers)).json,
    async close() {
      await gateway.close()
      await Promise.all([raw.close(), idp.close(), target.close()])
    },
  }
}

for (const era of ['modern', 'legacy'] as const)
  test(`a ${era} backend gets the target’s token by two steps, each with its own client, once for many calls`, async () => {
    const stage = await startStage({}, { era })
    const headers = await stage.gateway.bearer('alice')
    const { client } = await connect(stage.gateway.url, era, { headers })
    for (let call = 0; call < 3; call++)
      assert.is(readText(await client.callTool({ name: 'api_t', arguments: {} })), 'ok')
    await client.close()
    const [exchange] = stage.idp.requests
    assert.is(stage.idp.requests.length, 1)
    assert.equal(exchange?.form, {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      requested_token_type: ID_JAG,
      subject_token: headers.authorization.slice('Bearer '.length),
      subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
      audience: TARGET,
      resource: RESOURCE,
      scope: 'read write',
    })
    const ofUser = stage.target.requests.filter(({ form }) => form['grant_type'] !== 'client_credentials')
    assert.is(ofUser.length, 1)
    assert.is(ofUser[0]?.form['grant_type'], 'urn:ietf:params:oauth:grant-type:jwt-bearer')
    assert.is(readSubject(ofUser[0]?.form['assertion']), 'alice')
    assert.not.ok(JSON.stringify(ofUser).includes(headers.authorization.slice('Bearer '.length)))
    const basic = ({ id, secret: password }: { id: string; secret: string }) =>
      `Basic ${Buffer.from([id, password].map((part) => new URLSearchParams({ a: part }).toString().slice(2)).join(':')).toString('base64')}`
    assert.is(exchange?.headers.authorization, basic(CLIENT))
    assert.is(ofUser[0]?.headers.authorization, basic(TARGET_CLIENT))
    assert.is(new Set(stage.sent()).size, 1)
    assert.match(stage.sent()[0] ?? '', /^Bearer token-of-alice-/)
    await eventually('probes with the client’s own token', () =>
      stage.raw.seen.some((request) => /^Bearer token-of-gateway/.test(request.headers.authorization ?? '')),
    )
    await stage.close()
  })

test('with subjectProviderName the login’s ID token is sent, and the caller’s own token is not', async () => {
  const stage = await startStage({ subjectProviderName: 'okta' })
  const mintIdToken = (who: string, expiresIn = 300) =>
    stage.gateway.idp.mint({ sub: who, aud: 'the-gateway-at-okta' }, { expiresIn })
  const logIn = async (subject: string, login: string, idToken?: string) =>
    stage.gateway.logIn({ subject, login, provider: 'okta' }, `access-of-${subject}`, idToken ? { idToken } : {})
  await logIn('alice', 'one', await mintIdToken('alice-one'))
  await logIn('alice', 'two', await mintIdToken('alice-two'))
  await logIn('bob', 'none')
  await logIn('carol', 'ended', await mintIdToken('carol', -60))
  await logIn('dave', 'no-jwt', 'not.a.jwt')
  for (const login of ['one', 'two']) {
    const headers = await stage.gateway.bearer('alice', login)
    assert.ok((await stage.call(headers)).result)
    assert.match(stage.sent().at(-1) ?? '', `Bearer token-of-alice-${login}`)
    const requests = [...stage.idp.requests, ...stage.target.requests]
    assert.not.ok(JSON.stringify(requests).includes(headers.authorization.slice('Bearer '.length)))
  }
  {
    using clock = stoppedClock()
    await logIn('alice', 'two', await mintIdToken('alice-anew'))
    clock.pass(6_000)
    assert.ok((await stage.call(await stage.gateway.bearer('alice', 'two'))).result)
    assert.match(stage.sent().at(-1) ?? '', 'Bearer token-of-alice-anew')
    await stage.gateway.store.removeLogin('two')
    clock.pass(6_000)
    assert.match((await stage.call(await stage.gateway.bearer('alice', 'two'))).error.message, 'again')
  }
  const before = stage.idp.requests.length
  for (const [subject, login] of [
    ['bob', 'none'],
    ['carol', 'ended'],
    ['dave', 'no-jwt'],
    ['erin', 'unknown'],
    ['bob', 'one'],
  ] as const)
    assert.match(
      (await stage.call(await stage.gateway.bearer(subject, login))).error.message,
      'you have to log in at the provider "okta" again',
      `${subject} ${login}`,
    )
  assert.is(stage.idp.requests.length, before)
  await stage.close()
})

test('an assertion for another target or resource is refused, whatever its header says', async () => {
  const stage = await startStage()
  let user = 0
  const outcome = async (give: () => Promise<object> | object) => {
    stage.idp.answer = async (_request, response) => respond(response, 200, await give())
    const before = stage.target.requests.length
    const json = await stage.call(await stage.gateway.bearer(`user-${++user}`))
    const reached = stage.target.requests.slice(before).some(({ form }) => form['assertion'] !== undefined)
    assert.is(json.result !== undefined, reached)
    if (json.error !== undefined)
      assert.match(json.error.message, 'the identity provider’s token endpoint does not answer as specified')
    return reached
  }
  const withClaims = (claims: Record<string, unknown>, typ?: string) => async () =>
    buildToken(await assertion(claims, typ))
  assert.ok(await outcome(withClaims({})))
  assert.ok(await outcome(withClaims({ aud: [TARGET], resource: [RESOURCE] })))
  assert.ok(await outcome(withClaims({}, 'JWT')))
  assert.ok(await outcome(async () => buildToken(await assertion({}), { token_type: 'n_a' })))
  const other = 'https://other.example'
  const wrongAudiences = [undefined, null, '', other, [], [other], [TARGET, other], [[TARGET]], { a: TARGET }, 1]
  for (const aud of [...wrongAudiences, `${TARGET}/`])
    assert.not.ok(await outcome(withClaims({ aud })), JSON.stringify(aud))
  for (const resource of [undefined, other, [], [RESOURCE, other], [other, RESOURCE], {}, true])
    assert.not.ok(await outcome(withClaims({ resource })), JSON.stringify(resource))
  const good = await assertion({})
  for (const token of ['', 'opaque', 'a.b', 'a.b.c', `${Buffer.from('[]').toString('base64url')}.e30.x`, good.slice(5)])
    assert.not.ok(await outcome(() => buildToken(token)), token.slice(0, 20))
  for (const type of [undefined, null, 'urn:ietf:params:oauth:token-type:access_token', `${ID_JAG}x`, 7])
    assert.not.ok(await outcome(() => buildToken(good, { issued_token_type: type })))
  for (const type of [undefined, 'Bearer', 'N/A', '', ['N_A']])
    assert.not.ok(await outcome(() => buildToken(good, { token_type: type })))
  await stage.close()
})

test('a provider or target that refuses affects only its own backend, and the error names it', async () => {
  const stage = await startStage()
  const alice = await stage.gateway.bearer('alice')
  stage.target.answer = (_request, response) =>
    respond(response, 400, { error: 'invalid_grant', error_description: 'inside' })
  const refused = await stage.call(alice)
  assert.match(refused.error.message, 'the target’s token endpoint refused the exchange')
  assert.ok((await stage.call(alice, 'open_t')).result)
  stage.target.answer = (_request, response) =>
    respond(response, 200, { ...buildExchanged('bound'), token_type: 'DPoP' })
  // A call may share an earlier call's request.
  const expectMessage = (text: string) =>
    eventually(text, async () => String((await stage.call(alice)).error?.message).includes(text))
  await expectMessage('the target’s token endpoint does not give bearer tokens')
  stage.idp.answer = (_request, response) => respond(response, 500, { error: 'inside of the provider' })
  await expectMessage('the identity provider’s token endpoint does not answer as specified')
  const unreachable = await stage.call(alice)
  assert.not.match(JSON.stringify([refused, unreachable, stage.gateway.lines, await stage.gateway.status()]), /inside/)
  assert.is(stage.sent().filter((authorization) => authorization !== undefined).length, 0)
  await stage.close()
})

test('after a 401 of the backend both steps are repeated once', async () => {
  let refused = ''
  const stage = await startStage(
    {},
    {
      before: ({ headers }, res) => {
        if (refused === '' || headers.authorization !== refused) return false
        res.writeHead(401).end()
        return true
      },
    },
  )
  const alice = await stage.gateway.bearer('alice')
  assert.ok((await stage.call(alice)).result)
  refused = stage.sent().at(-1) ?? ''
  assert.ok((await stage.call(alice)).result)
  assert.is(stage.idp.requests.length, 2)
  assert.is.not(stage.sent().at(-1), refused)
  await stage.close()
})

test('https is needed except on loopback; the target is optional; a secret needs a client', () => {
  const findings = (xaa: Partial<Xaa>) =>
    checkGateway({
      name: 'g',
      namespace: 'n',
      incomingAuth: { type: 'oidc', oidc: { issuer: 'https://i.example', audience: 'a' } },
      backends: [
        {
          name: 'api',
          url: 'https://b.example/mcp',
          credential: {
            type: 'xaa',
            xaa: {
              idpTokenUrl: 'https://i.example/t',
              targetTokenUrl: 'https://t.example/t',
              targetAudience: TARGET,
              ...xaa,
            },
          },
        },
      ],
    } as GatewayConfig).map(({ pointer }) => pointer.replace('/backends/0/credential/xaa/', ''))
  assert.equal(findings({}), [])
  assert.equal(findings({ idpTokenUrl: 'http://127.0.0.1/t', targetTokenUrl: 'http://[::1]/t' }), [])
  assert.equal(findings({ targetTokenUrl: 'http://t.example/t', insecureTargetTokenUrl: true }), [])
  assert.equal(findings({ targetTokenUrl: 'http://t.example/t' }), ['targetTokenUrl'])
  assert.equal(findings({ idpTokenUrl: 'http://i.example/t', insecureTargetTokenUrl: true }), ['idpTokenUrl'])
  for (const url of [
    'https://10.0.0.1/t',
    'https://169.254.169.254/t',
    'https://u:p@i.example/t',
    'https://i.example/#f',
  ])
    for (const field of ['idpTokenUrl', 'targetTokenUrl']) assert.equal(findings({ [field]: url }), [field], url)
  assert.equal(findings({ idpClientSecretFile: 's' }), ['idpClientId'])
  assert.equal(findings({ targetClientSecretFile: 's' }), ['targetClientId'])
})

test.run()
