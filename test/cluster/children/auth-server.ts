/** Follows `authServerConfig` through a cluster: what users apply, what pods get, and what the status reports. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkGateway } from '../../../dataplane/config/check/gateway.ts'
import { gatewayConfigSchema } from '../../../dataplane/config/gateway.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import { unwrap } from '../../support/unwrap.ts'
import { newCluster } from '../support/cluster.ts'
import { group, manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'

const parse = configParser(gatewayConfigSchema, checkGateway)

const cluster = newCluster()
const { apply, kubectl, read } = cluster

test.before(() => cluster.start())
test.after(() => cluster.stop())

const condition = (type: string) => cluster.condition('vmcp', 'login', type)
const waitForCondition = (type: string, pattern: RegExp | string) =>
  eventually(() => {
    const { status, reason, message } = condition(type) ?? {}
    const text = `${status} ${reason} ${message}`
    return typeof pattern === 'string' ? text.includes(pattern) : pattern.test(text)
  }, `${type}: ${pattern}`)

const issuer = 'https://tools.example.com'
const oidcConfig = (name: string, url: string) =>
  manifest('MCPOIDCConfig', name, { type: 'inline', inline: { issuer: url } })
const redisStorage = {
  signingKeySecretRefs: [{ name: 'keys', key: 'signing.pem' }],
  hmacSecretRefs: [{ name: 'keys', key: 'hmac' }],
}

const login = (authServerConfig: object = {}, spec: object = {}, oidc = 'own') =>
  manifest('VirtualMCPServer', 'login', {
    groupRef: { name: 'tools' },
    incomingAuth: {
      type: 'oidc',
      audience: `${issuer}/mcp`,
      oidcConfigRef: { name: oidc, resourceUrl: `${issuer}/mcp` },
    },
    authServerConfig: {
      issuer,
      upstreamProviders: [
        {
          name: 'corp',
          type: 'oidc',
          oidcConfig: {
            issuerUrl: 'https://idp.example.com',
            clientId: 'tools',
            clientSecretRef: { name: 'client', key: 'secret' },
          },
        },
      ],
      ...authServerConfig,
    },
    ...spec,
  })

const buildSecret = (name: string, stringData: object) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name, namespace: 'default' },
  stringData,
})

test('the gateway waits for its Secrets, serves once they exist, and keeps the last good configuration', async () => {
  apply(group(), oidcConfig('own', issuer), oidcConfig('other', 'https://idp.example.com'), login(redisStorage))
  await waitForCondition('ReferencesResolved', /^False SecretNotFound .*Secret "keys" is missing/)
  assert.throws(() => read('configmap', 'login-vmcp-config'), /not found/)

  apply(buildSecret('keys', { 'signing.pem': 'a', hmac: 'b' }), buildSecret('client', { secret: 'c' }))
  await waitForCondition('Valid', 'True')
  await waitForCondition('ReferencesResolved', 'True')
  await waitForCondition('AuthServerWarning', 'True NotPersistent /spec/authServerConfig: storage is memory')
  const text = unwrap(read('configmap', 'login-vmcp-config').data['gateway.yaml'])
  const { authServer } = parse(text)
  assert.equal(authServer?.signingKeyFiles, ['../secrets/keys/signing.pem'])
  assert.is(authServer?.upstreamProviders[0]?.oidcConfig?.clientSecretFile, '../secrets/client/secret')
  const { volumes } = read('deployment', 'login-vmcp').spec.template.spec
  const mounted = volumes.flatMap(({ secret }: { secret?: { secretName: string } }) => secret?.secretName ?? [])
  assert.equal(mounted.sort(), ['client', 'keys'])

  apply(login(redisStorage, { replicas: 2 }))
  await waitForCondition('Valid', 'False AuthServerNotShared /spec/replicas must not be above 1')
  apply(login(redisStorage, {}, 'other'))
  await waitForCondition(
    'Valid',
    'False IssuerMismatch /spec/authServerConfig/issuer: the issuer https://tools.example.com must equal that of MCPOIDCConfig "other"',
  )
  assert.is(read('configmap', 'login-vmcp-config').data['gateway.yaml'], text, 'the last good one')
  assert.is(read('deployment', 'login-vmcp').spec.replicas ?? 1, 1)
  assert.match(
    kubectl(['describe', 'vmcp', 'login']),
    /IssuerMismatch[\s\S]*NotPersistent|NotPersistent[\s\S]*IssuerMismatch/,
  )

  apply(login({ ...redisStorage, storage: { type: 'redis', redis: { addr: 'redis:6379' } } }, { replicas: 2 }))
  await waitForCondition('Valid', 'True')
  await eventually(() => condition('AuthServerWarning') === undefined, 'no warning')
  await eventually(() => read('deployment', 'login-vmcp').spec.replicas === 2, 'two replicas')
})

test('the API server refuses impossible settings', () => {
  const readRefusal = (authServerConfig: object, spec: object = {}) => {
    try {
      apply(login(authServerConfig, spec))
    } catch (error) {
      return (error as Error).message
    }
    return 'taken'
  }
  assert.match(
    readRefusal({}, { incomingAuth: { type: 'anonymous' } }),
    'authServerConfig needs incomingAuth.type oidc',
  )
  assert.match(readRefusal({ issuer: 'http://tools.example.com' }), 'https')
  assert.match(readRefusal({ tokenLifespans: { accessTokenLifespan: '25h' } }), 'must be from 1m to 24h')
  assert.match(readRefusal({ upstreamProviders: [] }), 'upstreamProviders')
})

test.run()
