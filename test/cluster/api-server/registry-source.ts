import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { labels, registryFolder, runRegistry, type TestRegistry } from '../../support/registry/registry.ts'
import { newCluster } from '../support/cluster.ts'
import type { ControlPlane } from '../support/control-plane.ts'
import { buildNamespace, serviceAccount } from '../support/manifests.ts'

const GROUP = 'portico.dev'
const cluster = newCluster()
let plane: ControlPlane
let registry: TestRegistry

const kind = (name: string, namespace: string, annotations: Record<string, string>, of = 'MCPServerEntry') => ({
  apiVersion: `${GROUP}/v1beta1`,
  kind: of,
  metadata: {
    name,
    namespace,
    annotations: Object.fromEntries(
      Object.entries(annotations).map(([key, value]) => [
        key.startsWith('~') ? key.slice(1) : `${GROUP}/${key}`,
        value,
      ]),
    ),
  },
  spec:
    of === 'MCPServerEntry'
      ? { remoteUrl: 'https://mcp.example.com/mcp', transport: 'streamable-http', groupRef: { name: 'g' } }
      : { image: 'example.com/server:1', transport: 'streamable-http' },
})
const exportAnnotations = (name: string, rest: Record<string, string> = {}) => ({
  'registry-export': 'true',
  'registry-url': `https://${name}.example.com/mcp`,
  'registry-description': `About ${name}`,
  ...rest,
})
const apply = (...objects: object[]) => plane.apply(...objects)

const waitForEntries = (...wanted: string[]) =>
  eventually(
    `${wanted}`,
    async () => JSON.stringify(labels(await registry.list('/servers'))) === JSON.stringify(wanted),
  )
const reader = (namespace: string) => [
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: { name: 'catalog', namespace },
    rules: [
      {
        apiGroups: [GROUP],
        resources: ['mcpservers', 'mcpremoteproxies', 'virtualmcpservers', 'mcpserverentries'],
        verbs: ['get', 'list', 'watch'],
      },
    ],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'catalog', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'catalog' },
    subjects: [{ kind: 'ServiceAccount', name: 'catalog', namespace: 'one' }],
  },
]

test.before(async () => {
  await cluster.install()
  plane = cluster.plane
  apply(buildNamespace('one'), buildNamespace('two'), serviceAccount('catalog', 'one'))
  apply(...reader('one'), ...reader('two'))
  apply(
    kind('a', 'one', exportAnnotations('a', { 'registry-version': '2.1.0', 'registry-title': 'The A' })),
    kind('b', 'two', exportAnnotations('b'), 'MCPServer'),
    kind('hidden', 'one', { ...exportAnnotations('hidden'), 'registry-export': 'false' }),
  )

  const folder = await registryFolder()
  await folder.write('token', plane.token('catalog', 'one'))
  copyFileSync(join(plane.directory, 'certs', 'apiserver.crt'), join(folder.directory, 'ca.crt'))
  await folder.configure({
    sources: [
      {
        name: 'cluster',
        kubernetes: {
          namespaces: ['one', 'two'],
          group: GROUP,
          apiServer: { url: plane.server, tokenFile: '../token', caFile: '../ca.crt' },
        },
      },
    ],
    registries: [{ name: 'main', sources: ['cluster'] }],
    auth: { mode: 'anonymous' },
  })
  registry = await runRegistry(folder)
})

test.after(async () => {
  await registry?.close()
  await cluster.stop()
})

test('exported objects of all namespaces are listed as annotated', async () => {
  await waitForEntries('dev.portico.k8s.one/a@2.1.0', 'dev.portico.k8s.two/b@1.0.0')
  const { server } = await registry.one('/servers/dev.portico.k8s.one%2Fa/versions/latest')
  assert.equal((server as unknown as Record<string, unknown>)['remotes'], [
    { type: 'streamable-http', url: 'https://a.example.com/mcp' },
  ])
  assert.is(server.title, 'The A')
  assert.is(server.description, 'About a')
})

test('a change in one namespace shows at once and does not affect the other', async () => {
  apply(kind('a', 'one', exportAnnotations('a', { 'registry-version': '2.2.0' })))
  await waitForEntries('dev.portico.k8s.one/a@2.2.0', 'dev.portico.k8s.two/b@1.0.0')
  apply(kind('hidden', 'one', exportAnnotations('hidden')))
  await waitForEntries('dev.portico.k8s.one/a@2.2.0', 'dev.portico.k8s.one/hidden@1.0.0', 'dev.portico.k8s.two/b@1.0.0')
  plane.mergePatch(
    'mcpserverentry',
    'hidden',
    { metadata: { annotations: { [`${GROUP}/registry-export`]: null } } },
    'one',
  )
  await waitForEntries('dev.portico.k8s.one/a@2.2.0', 'dev.portico.k8s.two/b@1.0.0')
})

test('unreadable claims, a missing description and a bad URL leave the entry out and are reported', async () => {
  apply(
    kind('c1', 'one', exportAnnotations('c1', { 'authz-claims': '{"team": 1}' })),
    kind('c2', 'one', exportAnnotations('c2', { '~authz-claims': 'no json' })),
    kind('c3', 'one', { ...exportAnnotations('c3'), 'registry-url': 'mcp.example.com' }),
    kind('c4', 'one', { ...exportAnnotations('c4'), 'registry-description': '' }),
    kind('c5', 'one', exportAnnotations('c5', { 'authz-claims': '{"team": "red"}', '~authz-claims': 'not read' })),
  )
  await waitForEntries('dev.portico.k8s.one/a@2.2.0', 'dev.portico.k8s.one/c5@1.0.0', 'dev.portico.k8s.two/b@1.0.0')
  await eventually('four entries are reported', async () => (await registry.source('cluster')).leftOut === 4)
  const { problems } = await registry.source('cluster')
  assert.equal(
    problems.map(({ pointer }) => pointer),
    ['c1', 'c2', 'c3', 'c4'].map((name) => `/MCPServerEntry/one/${name}`),
  )
  for (const name of ['c1', 'c2', 'c3', 'c4', 'c5']) plane.remove('mcpserverentry', name, 'one')
  await waitForEntries('dev.portico.k8s.one/a@2.2.0', 'dev.portico.k8s.two/b@1.0.0')
})

test('if two kinds have the same name, the first keeps it', async () => {
  apply(kind('b', 'two', exportAnnotations('other', { 'registry-version': '9.0.0' })))
  await eventually('the duplicate is reported', async () => (await registry.source('cluster')).leftOut === 1)
  await waitForEntries('dev.portico.k8s.one/a@2.2.0', 'dev.portico.k8s.two/b@1.0.0')
  plane.remove('mcpserverentry', 'b', 'two')
  await eventually('the report is gone', async () => (await registry.source('cluster')).leftOut === 0)
})

test('entries stay while the API server is down, and changes are followed once it is back', async () => {
  await plane.stopApiServer()
  const done = fetch(`${registry.url}/registry/main/v0.1/servers`)
  assert.is((await done).status, 200)
  await plane.startApiServer()
  apply(kind('d', 'one', exportAnnotations('d')))
  await waitForEntries('dev.portico.k8s.one/a@2.2.0', 'dev.portico.k8s.one/d@1.0.0', 'dev.portico.k8s.two/b@1.0.0')
})

test('a revoked right is reported, and entries stay', async () => {
  plane.remove('rolebinding', 'catalog', 'two')
  apply(kind('e', 'one', exportAnnotations('e')))
  await eventually('the error is reported', async () => (await registry.source('cluster')).error?.code === 'forbidden')
  const { error } = await registry.source('cluster')
  assert.match(error?.message ?? '', 'namespace two')
  apply(...reader('two'))
  await waitForEntries(
    'dev.portico.k8s.one/a@2.2.0',
    'dev.portico.k8s.one/d@1.0.0',
    'dev.portico.k8s.one/e@1.0.0',
    'dev.portico.k8s.two/b@1.0.0',
  )
})

test('a replaced token is used', async () => {
  writeFileSync(join(registry.folder.directory, 'token'), 'no token')
  apply(kind('f', 'one', exportAnnotations('f')))
  await eventually('the error is reported', async () => (await registry.source('cluster')).error?.code === 'forbidden')
  writeFileSync(join(registry.folder.directory, 'token'), plane.token('catalog', 'one'))
  await eventually('the source works again', async () => (await registry.source('cluster')).state === 'ok')
})

test.run()
