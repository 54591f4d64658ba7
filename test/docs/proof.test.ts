/** Serves the manifest of docs/proof.md from a gateway. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, stringify } from 'yaml'
import { eventually } from '../support/eventually.ts'
import { startGateway, type TestConfig } from '../support/gateway/gateway.ts'
import { modern, post } from '../support/gateway/post.ts'
import { Prover } from '../support/identity/prover.ts'
import { startIdentityProvider } from '../support/network/identity-provider.ts'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'

const docs = readFileSync(new URL('../../docs/proof.md', import.meta.url), 'utf8')
const blocks = [...docs.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
const GROUP = 'kind: MCPGroup\nmetadata: {name: tools}\n---\n'
const RESOURCE = 'https://tools.example.com/mcp'
const ISSUER = 'https://login.example.com/realms/corp'

const [manifest = '', ownServer = ''] = blocks

test('the manifest requires DPoP proofs with nonces', async () => {
  const plan = plansOfText(GROUP + manifest).get('VirtualMCPServer/tools')
  assert.match(condition(plan, 'ProofReady') ?? '', /^True/)
  const provider = await startIdentityProvider()
  const { oidc, ...incomingAuth } = (parse(configText(plan)) as TestConfig).incomingAuth as { oidc: object }
  assert.is((oidc as { issuer: string }).issuer, ISSUER)
  const config = parse(configText(plan)) as TestConfig
  const gateway = await startGateway({
    ...config,
    incomingAuth: { ...incomingAuth, oidc: { ...oidc, issuer: provider.issuer, allowPrivateIP: true } },
  } as TestConfig)
  await eventually('it is ready', async () => (await fetch(`${gateway.adminUrl}/readyz`)).ok)
  const key = await Prover.create()
  const token = await provider.mint({ aud: RESOURCE, cnf: { jkt: key.jkt } })
  const list = modern('tools/list')
  const send = async (headers: Record<string, string>) => post(gateway.url, list.body, { ...list.headers, ...headers })
  assert.is((await send({ authorization: `Bearer ${await provider.mint({ aud: RESOURCE })}` })).status, 401)
  const challenged = await send(await key.headers('POST', RESOURCE, token))
  assert.match(challenged.headers.get('www-authenticate') ?? '', /^DPoP .*use_dpop_nonce/)
  const nonce = challenged.headers.get('dpop-nonce')
  assert.is((await send(await key.headers('POST', RESOURCE, token, { claims: { nonce } }))).status, 200)
  await gateway.close()
  await provider.close()
})

test('the block of the authorization server reaches the data plane', () => {
  const server = {
    issuer: 'https://tools.example.com',
    upstreamProviders: [{ name: 'corp', type: 'oidc', oidcConfig: { issuerUrl: ISSUER, clientId: 'tools' } }],
    ...(parse(ownServer) as { authServerConfig: object }).authServerConfig,
  }
  const gateway = {
    kind: 'VirtualMCPServer',
    metadata: { name: 'own' },
    spec: {
      groupRef: { name: 'tools' },
      incomingAuth: { type: 'oidc', oidcConfigRef: { name: 'own', audience: RESOURCE }, dpop: {} },
      authServerConfig: server,
    },
  }
  const issuer = {
    kind: 'MCPOIDCConfig',
    metadata: { name: 'own' },
    spec: { type: 'inline', inline: { issuer: server.issuer } },
  }
  const text = `${GROUP}${stringify(gateway)}---\n${stringify(issuer)}`
  const config = parse(configText(plansOfText(text).get('VirtualMCPServer/own'))) as TestConfig
  assert.equal(config.authServer?.dpop, { mode: 'optional', nonce: 'disabled' })
})

test.run()
