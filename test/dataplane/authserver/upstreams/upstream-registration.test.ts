/** Registers a gateway at a provider, here the npm package `oidc-provider`, and logs users in there. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildInjectingBackend } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'
import { startLoginProvider } from '../../../support/identity/login-provider.ts'
import { freePort } from '../../../support/network/free-port.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

test('the gateway registers once, with an initial access token, by the provider’s metadata', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const provider = await startLoginProvider([`http://127.0.0.1:${await freePort()}/unused`])
  // Null members count as absent.
  provider.before = (request, response) => {
    if (request.url !== '/reg') return false
    const end = response.end.bind(response)
    response.end = ((text: unknown) => {
      const sent = JSON.stringify({ ...JSON.parse(String(text)), client_secret_expires_at: null, contacts: null })
      response.setHeader('content-length', Buffer.byteLength(sent))
      return end(sent)
    }) as typeof response.end
    return false
  }
  const server = await startAuthServer({
    gateway: { backends: [buildInjectingBackend('own', raw.url, 'code')] },
    authServer: {
      upstreamProviders: [
        {
          name: 'code',
          type: 'oauth2',
          oauth2Config: {
            authorizationEndpoint: `${provider.issuer}/auth`,
            tokenEndpoint: `${provider.issuer}/token`,
            dcrConfig: {
              discoveryUrl: `${provider.issuer}/.well-known/openid-configuration`,
              initialAccessTokenFile: 'initial-access-token',
            },
            scopes: ['openid'],
            userInfo: { endpointUrl: `${provider.issuer}/me` },
          },
        },
      ],
    },
    prepare: (directory) => writeFile(join(directory, 'initial-access-token'), provider.initialAccessToken),
  })
  try {
    const client = await TestClient.register(server.issuer)
    const { access_token: token } = await client.login()
    const again = await client.login()
    assert.is(decodeJwt(again.access_token).sub, decodeJwt(token).sub)
    assert.is(provider.requests.filter((request) => request === 'POST /reg').length, 1)
    const bearer = { authorization: `Bearer ${token}` }
    assert.ok((await postModern(server.gateway.url, 'tools/call', { name: 'own_t' }, bearer)).json.result)
    assert.match(raw.calls('tools/call')[0]?.headers.authorization ?? '', /^Bearer /)
  } finally {
    await server.close()
    await provider.close()
    await raw.close()
  }
})

test.run()
