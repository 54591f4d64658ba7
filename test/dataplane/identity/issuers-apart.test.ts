/** Tests several issuers over HTTP: each affects only its own callers, and a faulty one harms no other. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { startGateway } from '../../support/gateway/gateway.ts'
import { openSession, post, rpc } from '../../support/gateway/post.ts'
import { type ProtectedServer, protectedGateway, protectedRegistry } from '../../support/identity/protected-servers.ts'
import { type IdentityProviderOptions, startIdentityProvider } from '../../support/network/identity-provider.ts'

const AUDIENCE = 'https://mcp.example'

const cleanups: (() => Promise<unknown>)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
const start = async (options: IdentityProviderOptions = {}) => {
  const idp = await startIdentityProvider(options)
  cleanups.push(() => idp.close())
  return idp
}
const openServers = async (...servers: Promise<ProtectedServer>[]) => {
  const all = await Promise.all(servers)
  cleanups.push(() => Promise.all(all.map((server) => server.close())))
  return all
}
const readStatus = async (server: ProtectedServer, token: string) => (await server.ask(`Bearer ${token}`)).status

test('a key of one issuer can’t sign for another, whatever its key id', async () => {
  const [one, two] = [await start(), await start()]
  const issuers = [one, two].map(({ issuer }) => ({ issuer, audience: AUDIENCE }))
  const [registry] = (await openServers(protectedRegistry(...issuers))) as [ProtectedServer]
  for (const idp of [one, two]) assert.is(await readStatus(registry, await idp.mint({ aud: AUDIENCE })), 200)
  const { keys } = (await (await fetch(one.jwksUrl)).json()) as { keys: { kid: string }[] }
  for (const { kid } of keys)
    for (const algorithm of ['RS256', 'ES256'] as const) {
      const forged = await two.mint({ iss: one.issuer, aud: AUDIENCE }, { header: { kid }, algorithm })
      assert.is(await readStatus(registry, forged), 401)
    }
})

test('a token for one server is refused at another of the same issuer', async () => {
  const { issuer, mint } = await start()
  const servers = await openServers(
    protectedGateway({ issuer, audience: 'https://one.example' }),
    protectedRegistry({ issuer, audience: 'https://two.example' }),
  )
  const [one, two] = servers as [ProtectedServer, ProtectedServer]
  const token = await mint({ aud: 'https://one.example' })
  assert.equal([await readStatus(one, token), await readStatus(two, token)], [200, 401])
})

test('the same subject of another issuer is another user, who gets no session of the first', async () => {
  const [one, two] = [await start(), await start()]
  const config = (issuer: string) => ({
    backends: [],
    incomingAuth: { type: 'oidc' as const, oidc: { issuer, audience: AUDIENCE } },
  })
  const gateway = await startGateway(config(one.issuer))
  cleanups.push(() => gateway.close())
  const bearer = async (idp: typeof one) => ({ authorization: `Bearer ${await idp.mint({ aud: AUDIENCE })}` })
  const session = await openSession(gateway.url, await bearer(one))
  await gateway.configure(config(two.issuer))
  const others = { ...session, ...(await bearer(two)) }
  let status = 0
  await eventually('the other issuer is in force', async () => {
    status = (await post(gateway.url, rpc('ping'), others)).status
    return status !== 401
  })
  assert.is(status, 404)
})

for (const [what, jwksUri] of [
  ['a metadata service', 'https://169.254.169.254/latest'],
  ['a private network', 'https://10.0.0.1/keys'],
  ['the same in IPv6', 'https://[::ffff:10.0.0.1]/keys'],
  ['a private network behind NAT64', 'https://[64:ff9b::a00:1]/keys'],
  ['plain http', 'http://192.0.2.1/keys'],
  ['a file', 'file:///etc/passwd'],
] as const)
  test(`keys at ${what} are not fetched: 503 for that issuer, without the address`, async () => {
    const [bad, good] = [await start({ jwksUri }), await start()]
    const issuers = [bad, good].map(({ issuer }) => ({ issuer, audience: AUDIENCE }))
    const servers = await openServers(
      protectedGateway({ issuer: bad.issuer, audience: AUDIENCE }),
      protectedRegistry(...issuers),
    )
    const [, registry] = servers as [ProtectedServer, ProtectedServer]
    for (const server of servers) {
      const { status, text, challenge } = await server.ask(`Bearer ${await bad.mint({ aud: AUDIENCE })}`)
      assert.is(status, 503, server.kind)
      assert.not.match(text + challenge, /169\.254|10\.0\.0|a00:1|192\.0\.2|passwd/)
    }
    assert.is(await readStatus(registry, await good.mint({ aud: AUDIENCE })), 200, 'the other issuer’s callers')
  })

test('known keys stay in use while the issuer is down; a new one gets 503 until it is back', async () => {
  const idp = await start()
  const issuer = { issuer: idp.issuer, audience: AUDIENCE }
  const servers = await openServers(protectedGateway(issuer), protectedRegistry(issuer))
  for (const server of servers) assert.is(await readStatus(server, await idp.mint({ aud: AUDIENCE })), 200)
  for (const behaviour of ['error', 'rubbish', 'redirects', 'huge'] as const) {
    idp.behaviour = behaviour
    for (const server of servers) assert.is(await readStatus(server, await idp.mint({ aud: AUDIENCE })), 200, behaviour)
  }
  await idp.rotate()
  const token = await idp.mint({ aud: AUDIENCE })
  for (const server of servers) assert.is(await readStatus(server, token), 503, server.kind)
  idp.behaviour = 'fine'
  for (const server of servers)
    await eventually('the new key is found', async () => (await readStatus(server, token)) === 200)
})

test.run()
