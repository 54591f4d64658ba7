/**
 * Runs the conformance suite's scenarios for OAuth clients. A gateway is a client of its backends only as far as it is
 * configured: it does no discovery, no registration and no user login there.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { listFailures, runClientScenarios } from '../../../support/gateway/conformance.ts'
import type { TestConfig } from '../../../support/gateway/gateway.ts'
import { startLoginGateway } from '../../../support/gateway/login-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'

const DISCOVERS = 'Portico discovers no authorization server at a backend: its endpoints are configured'
const REGISTERS = 'Portico registers at no authorization server of a backend: client and secret are configured'
const SCOPES = 'Portico asks for the scopes that are configured, whatever a backend’s challenge says'
const LOGS_IN = 'Portico sends nobody to a login at the authorization server of a backend'
const HOLDS_NO_KEY = 'Portico authenticates at token endpoints with a secret: it holds no key of its own'

/** Each scenario: `run`, or the reason why it does not apply. */
const SCENARIOS: Readonly<Record<string, string>> = {
  'auth/metadata-default': DISCOVERS,
  'auth/metadata-var1': DISCOVERS,
  'auth/metadata-var2': DISCOVERS,
  'auth/metadata-var3': DISCOVERS,
  'auth/basic-cimd': REGISTERS,
  'auth/scope-from-www-authenticate': SCOPES,
  'auth/scope-from-scopes-supported': SCOPES,
  'auth/scope-omitted-when-undefined': SCOPES,
  'auth/scope-step-up': SCOPES,
  'auth/scope-retry-limit': SCOPES,
  'auth/token-endpoint-auth-basic': LOGS_IN,
  'auth/token-endpoint-auth-post': LOGS_IN,
  'auth/token-endpoint-auth-none': LOGS_IN,
  'auth/pre-registration': LOGS_IN,
  'auth/2025-03-26-oauth-metadata-backcompat': DISCOVERS,
  'auth/2025-03-26-oauth-endpoint-fallback': DISCOVERS,
  'auth/resource-mismatch': DISCOVERS,
  'auth/offline-access-scope': LOGS_IN,
  'auth/offline-access-not-supported': LOGS_IN,
  'auth/authorization-server-migration': REGISTERS,
  'auth/iss-supported': LOGS_IN,
  'auth/iss-not-advertised': LOGS_IN,
  'auth/iss-supported-missing': LOGS_IN,
  'auth/iss-wrong-issuer': LOGS_IN,
  'auth/iss-unexpected': LOGS_IN,
  'auth/iss-normalized': LOGS_IN,
  'auth/metadata-issuer-mismatch': DISCOVERS,
  'auth/client-credentials-jwt': HOLDS_NO_KEY,
  'auth/client-credentials-basic': 'run',
  'auth/enterprise-managed-authorization': 'run',
  'auth/dpop': HOLDS_NO_KEY,
  'auth/dpop-nonce': HOLDS_NO_KEY,
  'auth/wif-jwt-bearer': 'Portico brings no token of its own platform to the authorization server of a backend',
}

interface Context {
  readonly name?: string
  readonly client_id: string
  readonly client_secret: string
  readonly idp_client_id?: string
  readonly idp_id_token?: string
  readonly idp_issuer?: string
  readonly idp_token_endpoint?: string
}

const json = async (url: string) => (await (await fetch(url)).json()) as Record<string, unknown>

/** Discovers what an administrator needs to know to configure a backend's credential. */
async function findAuthorizationServer(url: string) {
  const { origin, pathname } = new URL(url)
  const resource = await json(`${origin}/.well-known/oauth-protected-resource${pathname}`)
  const [issuer] = resource['authorization_servers'] as readonly [string]
  const metadata = await json(`${issuer}/.well-known/oauth-authorization-server`)
  return {
    issuer: String(metadata['issuer']),
    tokenUrl: String(metadata['token_endpoint']),
    resource: resource['resource'],
  }
}

type Credential = NonNullable<TestConfig['backends'][number]['credential']>

/** Starts a gateway in front of the suite's server and calls a tool there, with this ID token if there is one. */
async function goThrough(url: string, credential: Credential, secretText: string, idToken?: string): Promise<void> {
  const prepare = (folder: string) => writeFile(join(folder, 'secret'), secretText)
  const gateway = await startLoginGateway({ backends: [{ name: 'suite', url, credential }] }, { prepare })
  try {
    if (idToken === undefined) {
      const isListed = async () => (await gateway.status()).backends[0]?.latencyMs !== null
      return await eventually('the tools are known', isListed)
    }
    await gateway.logIn({ subject: 'alice', login: 'l', provider: 'corp' }, 'unused', { idToken: secret(idToken) })
    await postModern(gateway.url, 'tools/call', { name: 'suite_test-tool' }, await gateway.bearer('alice', 'l'))
  } finally {
    await gateway.close()
  }
}

test('every client scenario is run, or has its reason', async () => {
  const chosen = Object.keys(SCENARIOS).filter((name) => SCENARIOS[name] === 'run')
  const results = await runClientScenarios(chosen, async (url, input) => {
    const context = input as unknown as Context
    const { issuer, tokenUrl, resource } = await findAuthorizationServer(url)
    const { client_id: clientId, client_secret: clientSecret } = context
    const target = String(resource)
    if (context.idp_id_token === undefined) {
      // A gateway lists with its own token.
      const tokenExchange = { tokenUrl, clientId, clientSecretFile: 'secret', audience: target }
      return goThrough(url, { type: 'tokenExchange', tokenExchange }, clientSecret)
    }
    const xaa = {
      idpTokenUrl: String(context.idp_token_endpoint),
      idpClientId: String(context.idp_client_id),
      idpClientSecretFile: 'secret',
      targetTokenUrl: tokenUrl,
      targetClientId: clientId,
      targetClientSecretFile: 'secret',
      targetAudience: issuer,
      targetResource: target,
      subjectProviderName: 'corp',
    }
    return goThrough(url, { type: 'xaa', xaa }, clientSecret, context.idp_id_token)
  })
  assert.equal([...results.keys()].filter((name) => name.startsWith('auth/')).sort(), Object.keys(SCENARIOS).sort())
  for (const name of chosen) {
    const checks = results.get(name) ?? []
    assert.equal(listFailures(checks), [], name)
    assert.ok(
      checks.some(({ id, status }) => id === 'valid-bearer-token' && status === 'SUCCESS'),
      `${name}: the server was asked with a token`,
    )
  }
})

test.run()
