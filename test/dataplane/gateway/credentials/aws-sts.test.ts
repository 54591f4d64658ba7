/** Tests requests signed with an AWS role's credentials, which STS returns for each caller's token. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkGateway } from '../../../../dataplane/config/check/gateway.ts'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { startLoginGateway } from '../../../support/gateway/login-gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { startStsEndpoint } from '../../../support/network/sts-endpoint.ts'
import { answer, type RawServerOptions, startRawServer } from '../../../support/servers/raw-server.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'

const OK = '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'
const SCOPE = { region: 'eu-west-1', service: 'aws-mcp' }
const role = (name: string) => `arn:aws:iam::123456789012:role/${name}`

type AwsSts = NonNullable<NonNullable<GatewayConfig['backends'][number]['credential']>['awsSts']>

const ROLES: Partial<AwsSts> = {
  roleMappings: [
    { roleArn: role('staff'), matcher: 'claims.groups.exists(g, g.startsWith("team-"))', priority: 20 },
    { roleArn: role('admin'), claim: 'admins', priority: 1 },
    { roleArn: role('first-of-equals'), claim: 'equal', priority: 30 },
    { roleArn: role('second-of-equals'), claim: 'equal', priority: 30 },
    { roleArn: role('last'), claim: 'admins' },
  ],
}

async function startStage(
  aws: Partial<AwsSts> = ROLES,
  { era = 'modern', before, path = '' }: Partial<Pick<RawServerOptions, 'era' | 'before'>> & { path?: string } = {},
) {
  const raw = await startRawServer({
    era,
    call: (request) => answer(request, OK),
    ...(before === undefined ? {} : { before }),
  })
  const sts = await startStsEndpoint()
  const awsSts = { region: SCOPE.region, stsUrl: sts.url, ...aws }
  const gateway = await startLoginGateway({
    backends: [
      { name: 'api', url: raw.url + path, headers: { 'X-Amz-Date': 'mine' }, credential: { type: 'awsSts', awsSts } },
      { name: 'open', url: raw.url },
    ],
  })
  const bearer = (subject: string, groups: unknown, more = {}) =>
    gateway.bearer(subject, undefined, { groups, ...more })
  return {
    raw,
    sts,
    gateway,
    bearer,
    call: async (headers: Record<string, string>, name = 'api_t') =>
      (await postModern(gateway.url, 'tools/call', { name, arguments: { text: 'é "ü" \n' } }, headers)).json,
    lastSigner: async () => sts.signerOf(raw.calls('tools/call').at(-1) as never, SCOPE),
    async close() {
      await gateway.close()
      await Promise.all([raw.close(), sts.close()])
    },
  }
}

for (const era of ['modern', 'legacy', 'both'] as const)
  test(`every request of a caller to a ${era} backend is signed, and another implementation computes the same signature`, async () => {
    const stage = await startStage(ROLES, { era, path: '?a=b&c=%C3%A9%20x&a=%2F' })
    const headers = await stage.bearer('alice', ['admins'])
    for (const mode of ['modern', 'legacy'] as const) {
      const { client } = await connect(stage.gateway.url, mode, { headers })
      assert.is((await client.listTools()).tools.length, 2)
      assert.is(readText(await client.callTool({ name: 'api_t', arguments: { text: 'é "ü"' } })), 'ok')
      await client.close()
    }
    assert.is(stage.sts.requests.length, 1, 'credentials are kept')
    const token = headers.authorization.slice('Bearer '.length)
    assert.equal(stage.sts.requests[0]?.form, {
      Action: 'AssumeRoleWithWebIdentity',
      Version: '2011-06-15',
      RoleArn: role('admin'),
      RoleSessionName: 'alice',
      DurationSeconds: '3600',
      WebIdentityToken: token,
    })
    let signed = 0
    const seen = stage.raw.seen.filter(({ rawHeaders }) => rawHeaders.join().includes('AWS4'))
    for (const request of seen) {
      const signer = await stage.sts.signerOf(request, SCOPE)
      assert.is(signer?.form['RoleSessionName'], 'alice', `${request.method} ${request.message.method}`)
      signed++
    }
    for (const method of ['tools/list', 'tools/call'])
      assert.ok(stage.raw.calls(method).some(({ headers: sent }) => sent.authorization?.startsWith('AWS4')))
    assert.ok(signed > 2)
    assert.not.ok(JSON.stringify(stage.raw.seen).includes(token))
    const [one] = stage.sts.issued.values()
    const visible = JSON.stringify([stage.gateway.lines, await stage.gateway.status()])
    for (const text of [one?.accessKeyId, one?.secretAccessKey, one?.sessionToken])
      assert.not.ok(visible.includes(text ?? ''))
    await stage.close()
  })

test('the matching role with the lowest priority number is used, then the fallback; without one nothing is sent', async () => {
  const stage = await startStage()
  const readRole = async (groups: unknown) => {
    const json = await stage.call(await stage.bearer('alice', groups))
    if (json.error !== undefined) {
      assert.match(json.error.message, 'no AWS role is assigned to you')
      return undefined
    }
    return (await stage.lastSigner())?.form['RoleArn']
  }
  assert.is(await readRole(['team-1', 'admins']), role('admin'))
  assert.is(await readRole(['team-1']), role('staff'))
  assert.is(await readRole('admins'), role('admin'))
  assert.is(await readRole(['equal']), role('first-of-equals'))
  for (const groups of [undefined, null, [], ['admin'], 'team-1', { admins: true }, [['admins']], 7])
    assert.is(await readRole(groups), undefined, JSON.stringify(groups))
  assert.ok((await stage.call(await stage.bearer('alice', []), 'open_t')).result)
  await stage.close()
  const fallback = await startStage({
    ...ROLES,
    fallbackRoleArn: role('guest'),
    roleClaim: 'roles',
    sessionDuration: 900,
  })
  assert.ok((await fallback.call(await fallback.bearer('alice', ['admins']))).result)
  assert.is((await fallback.lastSigner())?.form['RoleArn'], role('guest'))
  assert.is((await fallback.lastSigner())?.form['DurationSeconds'], '900')
  assert.ok((await fallback.call(await fallback.bearer('bob', [], { roles: ['admins'] }))).result)
  assert.is((await fallback.lastSigner())?.form['RoleArn'], role('admin'))
  await fallback.close()
})

test('tokens of one user with different roles are kept apart, concurrently and in sessions', async () => {
  const stage = await startStage()
  const tokens = { admin: await stage.bearer('alice', ['admins']), staff: await stage.bearer('alice', ['team-1']) }
  const names = ['admin', 'staff'] as const
  await Promise.all(
    Array.from({ length: 40 }, async (_, index) => {
      const name = names[index % 2] as 'admin' | 'staff'
      const params = { name: 'api_t', arguments: { role: name } }
      assert.ok((await postModern(stage.gateway.url, 'tools/call', params, tokens[name])).json.result)
    }),
  )
  for (const request of stage.raw.calls('tools/call')) {
    const args = request.message.params?.['arguments'] as { readonly role: string }
    assert.is((await stage.sts.signerOf(request, SCOPE))?.form['RoleArn'], role(args.role))
  }
  assert.is(stage.sts.requests.length, 2)
  const session = await openSession(stage.gateway.url, tokens.admin)
  const call = rpc('tools/call', { name: 'api_t' })
  assert.is((await post(stage.gateway.url, call, session)).status, 200)
  assert.is((await post(stage.gateway.url, call, { ...session, ...tokens.staff })).status, 404)
  await stage.close()
})

test('the session name comes from its claim, in characters that AWS accepts', async () => {
  const stage = await startStage({ fallbackRoleArn: role('guest'), sessionNameClaim: 'email' })
  for (const [email, name] of [
    ['alice@corp.example', 'alice@corp.example'],
    ['a b/c\u00e9:*\n', 'a_b_c____'],
    ['x', 'x_'],
    ['y'.repeat(200), 'y'.repeat(64)],
  ] as const) {
    assert.ok((await stage.call(await stage.bearer('alice', [], { email }))).result, email)
    assert.is((await stage.lastSigner())?.form['RoleSessionName'], name)
  }
  for (const email of [undefined, null, '', 7, ['a@b.c'], { a: 1 }]) {
    const json = await stage.call(await stage.bearer('alice', [], { email }))
    assert.match(json.error.message, 'lacks the claim by which AWS names your session')
  }
  await stage.close()
})

test('with subjectProviderName the ID token of the login goes to AWS, and its claims choose the role', async () => {
  const stage = await startStage({ ...ROLES, subjectProviderName: 'okta' })
  const idToken = await stage.gateway.idp.mint({ sub: 'alice-at-okta', aud: 'c', groups: ['admins'] })
  await stage.gateway.logIn({ subject: 'alice', login: 'one', provider: 'okta' }, 'the-access-token', { idToken })
  const headers = await stage.gateway.bearer('alice', 'one', { groups: ['team-1'] })
  assert.ok((await stage.call(headers)).result)
  const { form } = (await stage.lastSigner()) ?? { form: {} as Record<string, string> }
  assert.equal(
    [form['RoleArn'], form['RoleSessionName'], form['WebIdentityToken']],
    [role('admin'), 'alice-at-okta', idToken],
  )
  const other = await stage.call(await stage.gateway.bearer('alice', 'two'))
  assert.match(other.error.message, 'you have to log in at the provider "okta" again')
  // A caller whose groups change gets another role.
  using clock = stoppedClock()
  const anew = await stage.gateway.idp.mint({ sub: 'alice-at-okta', aud: 'c', groups: ['team-1'] })
  await stage.gateway.logIn({ subject: 'alice', login: 'one', provider: 'okta' }, 'the-access-token', { idToken: anew })
  clock.pass(6_000)
  assert.ok((await stage.call(headers)).result)
  assert.is((await stage.lastSigner())?.form['WebIdentityToken'], anew)
  await stage.close()
})

test('an STS that refuses, is down or answers nonsense affects its own backend alone, and its text is not shown', async () => {
  const stage = await startStage({ fallbackRoleArn: role('guest') })
  const good = stage.sts.answer
  let user = 0
  const outcome = async (status: number, body: string) => {
    stage.sts.answer = (_request, response) => void response.writeHead(status, { 'content-type': 'text/xml' }).end(body)
    return (await stage.call(await stage.bearer(`user-${++user}`, []))).error?.message as string
  }
  const error = '<ErrorResponse><Error><Code>AccessDenied</Code><Message>inside</Message></Error></ErrorResponse>'
  assert.match(await outcome(403, error), 'AWS refused the role for your token')
  const unreachable = 'AWS STS does not answer as specified'
  const credentials = (...parts: string[]) =>
    `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>${parts.join('')}</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`
  const key = '<AccessKeyId>ASIAX</AccessKeyId>'
  const hidden = '<SecretAccessKey>inside</SecretAccessKey>'
  const token = '<SessionToken>inside</SessionToken>'
  const end = '<Expiration>2099-01-01T00:00:00Z</Expiration>'
  for (const body of [
    ...['', 'inside', '{"inside": 1}', '<', '<a>', '<a><b></a></b>', '<!DOCTYPE x [<!ENTITY e "inside">]><a>&e;</a>'],
    credentials(key, hidden, token),
    credentials(key, hidden, end),
    credentials(hidden, token, end),
    credentials(key, hidden, token, '<Expiration>soon</Expiration>'),
    credentials(key, hidden, '<SessionToken>in\r\nside: x</SessionToken>', end),
    credentials('<AccessKeyId>A/B, Signature=x</AccessKeyId>', hidden, token, end),
    credentials(key, key, hidden, token, end),
    credentials(key, '<SecretAccessKey><a>inside</a></SecretAccessKey>', token, end),
    '<a>'.repeat(20_000),
    `<a>${'x'.repeat(100_000)}</a>`,
  ])
    assert.match(await outcome(200, body), unreachable, body.slice(0, 80))
  assert.match(await outcome(500, 'inside'), unreachable)
  assert.match(await outcome(302, ''), unreachable)
  assert.ok((await stage.call(await stage.bearer('alice', []), 'open_t')).result)
  assert.not.match(JSON.stringify([stage.gateway.lines, await stage.gateway.status()]), /inside/)
  assert.not.ok(stage.raw.calls('tools/call').some(({ headers }) => headers.authorization !== undefined))
  stage.sts.answer = good
  const again = await stage.bearer('user-1', [])
  await eventually('it is back', async () => (await stage.call(again)).result !== undefined)
  await stage.close()
})

test('an unusable configuration is refused', () => {
  const findings = (aws: Partial<AwsSts>, more = {}) =>
    checkGateway({
      name: 'g',
      namespace: 'n',
      incomingAuth: { type: 'oidc', oidc: { issuer: 'https://i.example', audience: 'a' } },
      backends: [
        {
          name: 'api',
          url: 'https://b.example/mcp',
          ...more,
          credential: { type: 'awsSts', awsSts: { region: 'eu-west-1', ...aws } },
        },
      ],
    } as GatewayConfig).map(({ pointer }) => pointer.replace('/backends/0/', ''))
  assert.equal(findings(ROLES), [])
  assert.equal(findings({}), ['credential/awsSts'])
  const mapping = (rule: object) => findings({ roleMappings: [{ roleArn: role('a'), ...rule }] })
  assert.equal(mapping({}), ['credential/awsSts/roleMappings/0'])
  assert.equal(mapping({ claim: 'a', matcher: 'true' }), ['credential/awsSts/roleMappings/0'])
  assert.equal(mapping({ matcher: 'claims.a.matches("(a+)+")' }), ['credential/awsSts/roleMappings/0/matcher'])
  const fallback = { fallbackRoleArn: role('a') }
  assert.equal(findings({ ...fallback, stsUrl: 'http://sts.example/' }), ['credential/awsSts/stsUrl'])
  assert.equal(findings({ ...fallback, stsUrl: 'https://10.0.0.1/' }), ['credential/awsSts/stsUrl'])
  assert.equal(findings(fallback, { transport: 'sse' }), ['transport'])
})

test.run()
