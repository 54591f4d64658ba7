/** Kills a replica while assertions are redeemed, accounts linked and keys entered: no user is locked out. */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { GatewayReplica } from '../../../support/gateway/replica.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { enterKey, keyLinkIn, openKey } from '../../../support/identity/key-entry.ts'
import { follow, linkIn, openLink, sendForm } from '../../../support/identity/linking.ts'
import type { LoginProvider } from '../../../support/identity/login-provider.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { openRedis } from '../../../support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const hmac = secret(randomBytes(32).toString('base64url'))
const signing = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })

let redis: RedisServer
let commands: Redis
let raw: RawServer
/** Verifies keys; holds its answers while `held` is a list. */
let verifying: Server
let pending: ServerResponse[] | undefined
/** Its gateway is the replica that stays. */
let server: AuthServerUnderTest
let corp: LoginProvider
let github: LoginProvider
let agent: TestClient
/** The replica that is killed, in a separate process. */
let replica: GatewayReplica

test.before(async () => {
  redis = await startRedis()
  commands = openRedis(redis.port)
  raw = await startRawServer({ era: 'both', call: (request) => answer(request, OK_RESULT) })
  verifying = createServer((_request, response) => {
    if (pending === undefined) response.writeHead(200).end()
    else pending.push(response)
  })
  await new Promise<void>((resolve) => verifying.listen(0, '127.0.0.1', resolve))
  const verify = { url: `http://127.0.0.1:${(verifying.address() as AddressInfo).port}/me`, timeout: '30s' }
  server = await startAuthServer({
    providers: ['corp', 'github'],
    onDemand: ['github'],
    gateway: { backends: [buildInjectingBackend('hub', raw.url), buildInjectingBackend('tickets', raw.url, 'jira')] },
    authServer: {
      hmacSecretFiles: ['hmac'],
      signingKeyFiles: ['key.pem'],
      storage: { type: 'redis', redis: { addresses: [redis.address] } },
      allowConfidentialClientRegistration: true,
      insecureAllowConfidentialOverLoopbackHTTP: true,
    },
    change({ authServer, resourceUrl = '' }) {
      const config = authServer as AuthServerConfig
      const issuerUrl = unwrap(config.upstreamProviders[0]?.oidcConfig?.issuerUrl)
      const subjectRules = [{ name: 'all', matcher: 'true', allowedResources: [resourceUrl] }]
      Object.assign(config, {
        upstreamProviders: [
          ...config.upstreamProviders.map((one) => (one.name === 'github' ? { ...one, tokensPer: 'user' } : one)),
          { name: 'jira', type: 'key', keyConfig: { title: 'Jira', headerName: 'X-Api-Key', verify } },
        ],
        trustedIssuers: [{ issuerUrl, jwtBearerGrant: { maxAssertionAge: '10m', linkTo: 'corp', subjectRules } }],
      })
    },
    async prepare(directory) {
      await writeFile(join(directory, 'hmac'), hmac)
      await writeFile(join(directory, 'key.pem'), signing)
    },
  })
  ;[corp, github] = server.upstreams as [LoginProvider, LoginProvider]
  agent = await TestClient.register(server.issuer, {
    redirect_uris: ['https://app.example/callback'],
    token_endpoint_auth_method: 'client_secret_basic',
  })
})
test.before.each(async () => {
  replica = await GatewayReplica.start(join(server.gateway.directory, 'gateway.yaml'))
})
test.after.each(async () => {
  github.before = undefined
  pending = undefined
  await replica.end()
})
test.after(async () => {
  await server.close()
  verifying.closeAllConnections()
  verifying.close()
  commands.disconnect()
  await raw.close()
  await redis.stop()
})

/** Returns the address at the replica that will be killed, as a load balancer may choose it. */
const toReplica = (url: string) => url.replace(server.issuer, new URL(replica.url).origin)
/** Returns a browser that sends its cookies to either replica. */
function browser(): UserAgent {
  const created = new UserAgent()
  created.share(new URL(server.issuer).host, new URL(replica.url).host)
  return created
}
const mintAssertion = (sub: string) => corp.mint({ aud: server.issuer, client_id: agent.id, sub })
const redeem = (assertion: string, issuer = server.issuer) =>
  fetch(`${issuer}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      ...{ grant_type: BEARER, assertion, resource: server.resource },
      ...{ client_id: agent.id, client_secret: unwrap(agent.secret) },
    }),
  })
const mintToken = async (sub: string) => (await readTokens(await redeem(await mintAssertion(sub)))).access_token
const call = async (token: string, name: string, url = server.gateway.url) =>
  (await postModern(url, 'tools/call', { name }, { authorization: `Bearer ${token}` })).json
const isServed = async (token: string, name: string) => (await call(token, name)).result?.content?.[0]?.text === 'ok'
const readOutcome = (pending: Promise<Response>) =>
  pending.then(
    ({ status }) => `answered ${status}`,
    () => 'no answer',
  )

test('of fifty requests with one assertion at most one gets a token, and the next assertion works', async () => {
  const assertion = await mintAssertion('alice')
  await commands.call('CLIENT', 'PAUSE', '60000', 'WRITE')
  let outcomes: Promise<string>[]
  try {
    outcomes = Array.from({ length: 50 }, async (_, index) => {
      const answered = await redeem(assertion, index % 2 ? server.issuer : toReplica(server.issuer)).catch(
        () => undefined,
      )
      if (answered === undefined) return 'no answer'
      if (!answered.ok) return refusal(answered)
      await readTokens(answered)
      return 'a token'
    })
    // One blocked connection of each replica.
    const countBlocked = async () => /blocked_clients:(\d+)/.exec(await commands.info('clients'))?.[1]
    await eventually('both wait for Redis', async () => Number(await countBlocked()) >= 2)
    await replica.end()
  } finally {
    await commands.call('CLIENT', 'UNPAUSE')
  }
  const found = await Promise.all(outcomes)
  assert.is(found.filter((one) => one === 'no answer').length, 25)
  for (const one of found) assert.match(one, /^(no answer|a token|400 invalid_grant|503 \w+)$/)
  const last = await redeem(assertion)
  if (last.ok) await readTokens(last)
  assert.ok(found.filter((one) => one === 'a token').length + Number(last.ok) <= 1, found.join())
  assert.is(await refusal(redeem(assertion)), '400 invalid_grant')
  keyLinkIn(await call(await mintToken('alice'), 'tickets_t'))
})

test('links of the killed replica, also half followed ones, work at the other one', async () => {
  const people = ['ada', 'ben', 'cid'] as const
  const tokens = await Promise.all(people.map(mintToken))
  const [ada, ben, cid] = tokens as [string, string, string]
  const links = await Promise.all(tokens.map(async (token) => linkIn(await call(token, 'hub_t', replica.url))))
  const [adas, bens, cids] = links as [string, string, string]
  const browsers = { ben: browser(), cid: browser() }
  /** Follows a link up to the provider's redirect after this many steps. */
  const toCallback = async (who: 'ben' | 'cid', link: string, steps: number) => {
    corp.user = github.user = who
    const { form } = await openLink(browsers[who], toReplica(link))
    const isEnd = (url: string) => url.startsWith(`${server.issuer}/oauth/callback`)
    let { url } = await sendForm(browsers[who], { ...unwrap(form), action: toReplica(unwrap(form).action) }, isEnd)
    for (let step = 1; step < steps; step++) ({ url } = await browsers[who].follow(toReplica(url), isEnd))
    return url
  }
  const second = await toCallback('cid', cids, 2)
  const first = await toCallback('ben', bens, 1)
  const received = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  github.before = async ({ url }) => {
    if (url !== '/token') return false
    received.resolve()
    await released.promise
    return false
  }
  const outcome = readOutcome(browsers.cid.get(toReplica(second)))
  await received.promise
  await replica.end()
  github.before = undefined
  released.resolve()
  assert.is(await outcome, 'no answer')

  corp.user = github.user = 'ada'
  assert.match((await follow(new UserAgent(), adas)).text, 'github is linked')
  corp.user = github.user = 'ben'
  const { response } = await browsers.ben.follow(first, () => false)
  assert.match((await response?.text()) ?? '', 'github is linked')
  // A user whose account was just being linked starts again, with the link of their next call.
  corp.user = github.user = 'cid'
  assert.match((await follow(browsers.cid, linkIn(await call(cid, 'hub_t')))).text, 'github is linked')
  for (const token of [ada, ben, cid]) await eventually('the account', () => isServed(token, 'hub_t'))
  assert.is(new Set(raw.calls('tools/call').map(({ headers }) => headers.authorization)).size, 3)
})

test('a key whose page the killed replica showed, or that it was trying, can be entered at the other one', async () => {
  const keys = { dan: secret('jira-dan-0123456789'), eve: secret('jira-eve-0123456789') }
  const [dan, eve] = [await mintToken('dan'), await mintToken('eve')]
  const browsers = { dan: browser(), eve: browser() }
  /** Returns the form as shown by the replica that will be killed. */
  const formFor = async (who: 'dan' | 'eve', token: string) => {
    const link = keyLinkIn(await call(token, 'tickets_t', replica.url))
    corp.user = who
    await openKey(browsers[who], link)
    return unwrap((await openLink(browsers[who], toReplica(link))).form)
  }
  const dans = await formFor('dan', dan)
  const eves = await formFor('eve', eve)
  pending = []
  const outcome = readOutcome(browsers.eve.post(toReplica(eves.action), { ...eves.fields, key: keys.eve }))
  await eventually('it tries the key', () => pending?.length === 1)
  await replica.end()
  assert.is(await outcome, 'no answer')
  pending = undefined

  const sent = await browsers.dan.post(dans.action.replace(new URL(replica.url).origin, server.issuer), {
    ...dans.fields,
    key: keys.dan,
  })
  assert.is(sent.status, 303)
  await eventually('the key', () => isServed(dan, 'tickets_t'))
  assert.is(raw.calls('tools/call').at(-1)?.headers['x-api-key'], `Bearer ${keys.dan}`)
  const again = keyLinkIn(await call(eve, 'tickets_t'))
  assert.match((await enterKey(browsers.eve, again, keys.eve)).text, 'The key is kept')
  await eventually('the key', () => isServed(eve, 'tickets_t'))
  assert.is(raw.calls('tools/call').at(-1)?.headers['x-api-key'], `Bearer ${keys.eve}`)
})

test.run()
