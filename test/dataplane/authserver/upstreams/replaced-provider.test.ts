/** Checks that a provider which takes another one's name gets nothing of it: tokens, keys, codes, logins under way. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createMarkOfTokens } from '../../../../dataplane/authserver/provider/rule-marks.ts'
import type { AuthServerConfig, UpstreamProviderConfig } from '../../../../dataplane/config/auth-server.ts'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import type { LoginProvider } from '../../../support/identity/login-provider.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

let raw: RawServer
let server: AuthServerUnderTest
let client: TestClient
let code: LoginProvider
let spare: LoginProvider

test.before(async () => {
  raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  server = await startAuthServer({
    providers: ['corp', 'code', 'spare'],
    onDemand: ['spare'],
    gateway: { backends: [buildInjectingBackend('code', raw.url, 'code')] },
  })
  ;[, code, spare] = server.upstreams as [LoginProvider, LoginProvider, LoginProvider]
  // The gateway refreshes a token that has less than a minute left.
  code.accessTokenS = 30
  client = await TestClient.register(server.issuer)
  used = JSON.stringify(server.config())
})
test.after(async () => {
  await server.close()
  await raw.close()
})
test.after.each(() => use(server.config()))

let used = ''
async function use(config: ReturnType<AuthServerUnderTest['config']>) {
  const text = JSON.stringify(config)
  if (text === used) return
  used = text
  const before = (await server.gateway.status()).config
  await server.gateway.configure(config)
  await eventually('it is in force', async () => (await server.gateway.status()).config !== before)
}

/** Puts the spare provider under the name of another one. */
async function replace(name: string): Promise<void> {
  const { upstreamProviders = [] } = server.config().authServer ?? {}
  const { oidcConfig } = upstreamProviders[2] as UpstreamProviderConfig
  const replaced = upstreamProviders
    .slice(0, 2)
    .map((one): UpstreamProviderConfig => (one.name === name ? { ...one, ...(oidcConfig && { oidcConfig }) } : one))
  spare.requests.length = 0
  await use(server.config({ upstreamProviders: replaced }))
}
const sentToSpare = () => spare.requests.filter((request) => request.startsWith('POST'))

test('refresh tokens and access tokens of a provider count for no other one of its name', async () => {
  const { access_token: token } = await client.login()
  const call = async () =>
    (await postModern(server.gateway.url, 'tools/call', { name: 'code_t' }, { authorization: `Bearer ${token}` })).json
  assert.ok((await call()).result)
  const { length } = raw.calls('tools/call')
  await replace('code')
  assert.match(JSON.stringify(await call()), 'code')
  assert.equal(sentToSpare(), [])
  assert.is(raw.calls('tools/call').length, length, 'the backend gets nothing of the former provider')
  await use(server.config())
  assert.ok((await call()).result)
})

const atCode = () => client.agent.follow(client.authorizeUrl(), (at) => at.startsWith(`${code.issuer}/`))
const isBack = (at: string) => at.startsWith(`${server.issuer}/oauth/callback`)

test('a code goes to the provider that has given it, or nowhere', async () => {
  const { url } = await atCode()
  const back = await client.agent.follow(url, isBack)
  await replace('code')
  const end = await client.agent.follow(back.url, (at) => at.startsWith(REDIRECT))
  assert.not.match(end.url, 'code=')
  assert.equal(sentToSpare(), [])
})

test('a login does not go on for a user whom a provider of earlier has identified', async () => {
  const { url } = await atCode()
  await replace('corp')
  const end = await client.agent.follow(url, (at) => at.startsWith(REDIRECT))
  assert.is(new URL(end.url).searchParams.get('code'), null)
})

test('a key is of the server where users get it, whatever else of its provider changes', () => {
  const markOf = (keyConfig: object) => {
    const upstreamProviders = [{ name: 'jira', type: 'key', keyConfig }]
    return createMarkOfTokens({ upstreamProviders } as unknown as AuthServerConfig)('jira')
  }
  const mark = markOf({ title: 'Jira', helpUrl: 'https://jira.example/keys' })
  const verify = { url: 'https://api.jira.example/me' }
  assert.is(markOf({ title: 'Jira Cloud', helpUrl: 'https://jira.example/other', verify }), mark)
  assert.is.not(markOf({ title: 'Jira', helpUrl: 'https://other.example/keys' }), mark)
  assert.is(markOf({ title: 'Jira', verify }), undefined)
})

test.run()
