/** The life of an MCPRemoteProxy on a real API server. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { CERTIFICATE, group, type Manifest, manifest } from '../support/manifests.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()

const proxy = (name: string, spec: object = {}): Manifest =>
  manifest('MCPRemoteProxy', name, { remoteUrl: 'https://mcp.example/mcp', ...spec })

test.before(() => stage.start())
test.after(() => stage.stop())

test('a proxy has its children, is pending until its pods are ready, and has a URL that follows its port', async () => {
  stage.apply(proxy('plain', { proxyPort: 9000 }))
  const isServedAt = (port: number) => (service: LiveObject) => service.spec.ports[0].port === port
  await stage.until('Deployment', 'plain-mcprp')
  await stage.until('Service', 'mcprp-plain', isServedAt(9000))
  await stage.until('ConfigMap', 'plain-mcprp-config')
  const isAtGeneration =
    (generation: number) =>
    ({ status }: LiveObject) =>
      status?.observedGeneration === generation
  const { status: first } = await stage.until('MCPRemoteProxy', 'plain', isAtGeneration(1))
  assert.equal([first.phase, first.url], ['Pending', 'http://mcprp-plain.default.svc.cluster.local:9000/mcp'])
  stage.apply(proxy('plain', { proxyPort: 9001, endpointPrefix: '/team' }))
  const { status: second } = await stage.until('MCPRemoteProxy', 'plain', isAtGeneration(2))
  assert.is(second.url, 'http://mcprp-plain.default.svc.cluster.local:9001/team/mcp')
  await stage.until('Service', 'mcprp-plain', isServedAt(9001))
})

const inline = (...policies: string[]) => ({ authzConfig: { type: 'inline', inline: { policies } } })
const header = { headerName: 'X-Key', valueSecretRef: { name: 'key', key: 'value' } }

for (const [name, spec, type, reason, mend] of [
  [
    'cedar',
    inline('permit(principal, action'),
    'Valid',
    'ConfigInvalid',
    () => stage.apply(proxy('cedar', inline('permit(principal, action, resource);'))),
  ],
  [
    'map',
    { authzConfig: { configMap: { name: 'policies' } } },
    'ReferencesResolved',
    'ConfigMapNotFound',
    () =>
      stage.put('ConfigMap', { policies: { 'authz.json': '{"policies":["permit(principal, action, resource);"]}' } }),
  ],
  [
    'secret',
    { headerForward: { addHeadersFromSecret: [header] } },
    'ReferencesResolved',
    'SecretNotFound',
    () => stage.put('Secret', { key: { value: 'v' } }),
  ],
  [
    'bundle',
    { caBundleRef: { configMapRef: { name: 'their-ca', key: 'ca.crt' } } },
    'ReferencesResolved',
    'ConfigMapNotFound',
    () => stage.put('ConfigMap', { 'their-ca': { 'ca.crt': CERTIFICATE } }),
  ],
  [
    'address',
    { remoteUrl: 'http://10.1.2.3/mcp' },
    'Valid',
    'AddressRefused',
    () => stage.apply(proxy('address', { remoteUrl: 'http://10.1.2.3/mcp', allowPrivateEndpoint: true })),
  ],
] as const)
  test(`${name}: the problem is a condition and one event, and clears by itself`, async () => {
    stage.apply(proxy(name, spec))
    await stage.waitForCondition('MCPRemoteProxy', name, type, `False ${reason}`)
    await stage.waitForCondition('MCPRemoteProxy', name, 'Ready', `False ${reason}`)
    await stage.waitForEvents('MCPRemoteProxy', name, reason, 1)
    assert.is((await stage.get('MCPRemoteProxy', name)).status.phase, 'Failed')
    assert.is(await stage.find('Deployment', `${name}-mcprp`), undefined)
    mend()
    await stage.waitForCondition('MCPRemoteProxy', name, type, 'True')
    await stage.until('Deployment', `${name}-mcprp`)
    await stage.waitForEvents('MCPRemoteProxy', name, reason, 1)
  })

test('a CA bundle and the key of a Secret are mounted', async () => {
  const readMounts = async (name: string) => {
    const { spec } = await stage.get('Deployment', `${name}-mcprp`)
    return spec.template.spec.volumes.map(({ configMap, secret }) => configMap?.name ?? secret?.secretName)
  }
  assert.ok((await readMounts('bundle')).includes('their-ca'))
  assert.match(await stage.readConfig('bundle-mcprp'), 'caBundleFile:')
  assert.ok((await readMounts('secret')).includes('key'))
  assert.match(await stage.readConfig('secret-mcprp'), /name: X-Key\s+file: |file: \S+\s+name: X-Key/)
})

test('a group that is created later is noticed, and a proxy that changes its group moves', async () => {
  stage.apply(proxy('member', { groupRef: { name: 'first' } }))
  const missing = 'False ReferenceNotFound: MCPGroup "first" is missing'
  await stage.waitForCondition('MCPRemoteProxy', 'member', 'ReferencesResolved', missing)
  stage.apply(group('first'), group('second'))
  await stage.waitForCondition('MCPRemoteProxy', 'member', 'ReferencesResolved', 'True')
  const has =
    (members: string) =>
    ({ status }: LiveObject) =>
      (status?.remoteProxies ?? []).join() === members
  await stage.until('MCPGroup', 'first', has('member'))
  stage.apply(proxy('member', { groupRef: { name: 'second' } }))
  await stage.until('MCPGroup', 'second', has('member'))
  await stage.until('MCPGroup', 'first', has(''))
})

test('a proxy that logs users in signs AWS requests with their own credentials', async () => {
  const issuer = 'https://tools.example'
  const oidcConfig = { issuerUrl: 'https://idp.example', clientId: 'a' }
  const embeddedAuthServer = { issuer, upstreamProviders: [{ name: 'corp', type: 'oidc', oidcConfig }] }
  const fallbackRoleArn = 'arn:aws:iam::123456789012:role/tools'
  const awsSts = { region: 'eu-central-1', fallbackRoleArn, subjectProviderName: 'corp' }
  stage.apply(
    manifest('MCPOIDCConfig', 'own', { type: 'inline', inline: { issuer } }),
    manifest('MCPExternalAuthConfig', 'login', { type: 'embeddedAuthServer', embeddedAuthServer }),
    manifest('MCPExternalAuthConfig', 'aws', { type: 'awsSts', awsSts }),
    proxy('cloud', {
      oidcConfigRef: { name: 'own', audience: `${issuer}/mcp`, resourceUrl: `${issuer}/mcp` },
      authServerRef: { name: 'login' },
      externalAuthConfigRef: { name: 'aws' },
    }),
  )
  await stage.waitForCondition('MCPRemoteProxy', 'cloud', 'Valid', 'True')
  await stage.waitForConfig('cloud-mcprp', /authServer:[\s\S]*awsSts:[\s\S]*role\/tools/)
})

test.run()
