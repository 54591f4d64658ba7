/** Checks what the admin listener reports about the authorization server: its state, and no secret. */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeProtectedHeader } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerStatus } from '../../../dataplane/config/status.ts'
import { secret } from '../../secrets/watch.ts'
import { eventually } from '../../support/eventually.ts'
import { startGateway } from '../../support/gateway/gateway.ts'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'
import { startIdentityProvider } from '../../support/network/identity-provider.ts'
import { startRedis } from '../../support/network/redis-server.ts'

const statusAt = async (adminUrl: string) => {
  const text = await (await fetch(`${adminUrl}/status`)).text()
  return { text, status: (JSON.parse(text) as { authServer: AuthServerStatus | null }).authServer }
}
const readStatus = async ({ gateway }: AuthServerUnderTest) =>
  (await statusAt(gateway.adminUrl)).status as AuthServerStatus

const pem = () =>
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
const hmac = secret(randomBytes(32).toString('base64url'))

test('a gateway without an authorization server says so in its status', async () => {
  const gateway = await startGateway({ backends: [] })
  assert.is((await statusAt(gateway.adminUrl)).status, null)
  await gateway.close()
})

test('trusted issuers that can’t be reached, or name another issuer, are reported until that is mended', async () => {
  const [unreachable, misspelt] = [await startIdentityProvider(), await startIdentityProvider({ path: '/t' })]
  unreachable.behaviour = 'error'
  const jwtBearerGrant = { maxAssertionAge: '5m', subjectBindings: [{ subject: 'ci', allowedResources: ['x'] }] }
  const server = await startAuthServer({
    authServer: {
      trustedIssuers: [unreachable.issuer, `${misspelt.issuer}/`].map((issuerUrl) => ({ issuerUrl, jwtBearerGrant })),
    },
  })
  try {
    const codes = async () => (await readStatus(server)).trustedIssuers?.map(({ problem }) => problem?.code)
    await eventually('both were called', async () => (await codes())?.every((code) => code !== undefined) === true)
    assert.equal(await codes(), ['KeysUnreachable', 'IssuerNameMismatch'])
    const { text } = await statusAt(server.gateway.adminUrl)
    const { problems } = JSON.parse(text) as { problems: { code: string; message: string }[] }
    assert.equal(
      problems.map(({ code }) => code),
      ['KeysUnreachable', 'IssuerNameMismatch'],
    )
    assert.ok(problems.every(({ message }) => message.startsWith('http://127.0.0.1:')))
    unreachable.behaviour = 'fine'
    const assertion = await unreachable.mint({ sub: 'ci', aud: server.issuer })
    const fields = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion }
    await eventually('its keys are read', async () => {
      await new TestClient(server.issuer).post('token', fields)
      return (await codes())?.[0] === undefined
    })
  } finally {
    await Promise.all([server.close(), unreachable.close(), misspelt.close()])
  }
})

test('the status has issuer, storage, keys, and the last answer of each provider', async () => {
  const redis = await startRedis()
  const [first, second] = [pem(), pem()]
  const server = await startAuthServer({
    providers: ['corp', 'code'],
    authServer: {
      signingKeyFiles: ['first.pem', 'second.pem'],
      hmacSecretFiles: ['hmac'],
      storage: { type: 'redis', redis: { addresses: [redis.address] } },
    },
    async prepare(directory) {
      await writeFile(join(directory, 'hmac'), hmac)
      await writeFile(join(directory, 'first.pem'), first)
      await writeFile(join(directory, 'second.pem'), second)
    },
  })
  try {
    const client = await TestClient.register(server.issuer)
    const tokens = await client.login()
    await eventually('the storage was called', async () => (await readStatus(server)).storage.answers === true)
    const { issuer, storage, keys, providers } = await readStatus(server)
    assert.is(issuer, server.issuer)
    assert.is(storage.type, 'redis')
    assert.is(keys.length, 2)
    assert.is(keys[0], decodeProtectedHeader(tokens.access_token).kid)
    assert.equal(
      providers.map(({ name, lastError }) => [name, lastError]),
      [
        ['corp', null],
        ['code', null],
      ],
    )
    for (const { lastSuccess } of providers) assert.ok(Date.parse(lastSuccess ?? '') > Date.now() - 60_000)

    // The second one fails with words that must not be shown.
    const words = 'words-of-the-provider'
    const failing = server.upstreams[1]
    if (failing !== undefined)
      failing.before = (request, response) => {
        if (request.url !== '/token') return false
        response.writeHead(500, { 'content-type': 'application/json' }).end(JSON.stringify({ error: words }))
        return true
      }
    assert.is((await client.authorize()).get('error'), 'access_denied')
    assert.match(client.faults.pop() ?? '', 'unexpected_status')
    const after = (await readStatus(server)).providers
    assert.is(after[0]?.lastError, null)
    assert.match(after[1]?.lastError?.code ?? '', /^[A-Z_a-z]+$/)
    assert.ok(Date.parse(after[1]?.lastError?.at ?? '') >= Date.parse(after[1]?.lastSuccess ?? ''))
    // A refusal is an answer too: it clears the error.
    if (failing !== undefined) Object.assign(failing, { before: undefined, user: undefined })
    client.agent.forget(new URL(failing?.issuer ?? '').host)
    assert.is((await client.authorize()).get('error'), 'access_denied')
    assert.is((await readStatus(server)).providers[1]?.lastError, null)

    await redis.stop()
    await eventually('the storage is unreachable', async () => (await readStatus(server)).storage.answers === false)
    const { text } = await statusAt(server.gateway.adminUrl)
    for (const secret of [hmac, words, first.slice(60, 120), tokens.access_token, tokens.refresh_token])
      assert.not.ok(text.includes(secret))
    assert.not.match(text, /"d"|PRIVATE|secret/)
  } finally {
    await server.close()
    await redis.stop()
  }
})

test('unreadable keys are left out of the status, and the rest is there', async () => {
  const server = await startAuthServer({
    authServer: { signingKeyFiles: ['first.pem'] },
    prepare: (directory) => writeFile(join(directory, 'first.pem'), 'no key'),
  })
  await eventually('it is loaded', async () => (await readStatus(server)) !== null)
  const { keys, storage, providers } = await readStatus(server)
  assert.equal(keys, [])
  assert.equal(storage, { type: 'memory', answers: true })
  assert.equal(providers, [{ name: 'corp', lastSuccess: null, lastError: null }])
  await server.close()
})

test.run()
