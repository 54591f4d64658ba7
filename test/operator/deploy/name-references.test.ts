/** Checks with the real kustomize that our component updates references in our objects when kustomize changes a name. */
import { execFileSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments, stringify } from 'yaml'
import { kinds } from '../../../crds/index.ts'
import type { SchemaNode } from '../../../crds/walk.ts'
import { unreachablePlaces } from '../../../operator/deploy/name-references.ts'
import { kubernetes } from '../../cluster/support/binary.ts'
import { temporaryFolder } from '../../support/folder.ts'

const COMPONENT = join(import.meta.dirname, '../../../operator/deploy/name-references')

const ours = (kind: string, name: string, spec: object) => ({
  apiVersion: 'portico.dev/v1beta1',
  kind,
  metadata: { name },
  spec,
})

const OBJECTS = [
  ours('MCPGroup', 'tools', {}),
  ours('MCPOIDCConfig', 'corp', {
    type: 'inline',
    inline: { issuer: 'https://idp.example', clientSecretRef: { name: 'client', key: 'secret' } },
  }),
  ours('MCPServer', 'crm', {
    image: 'crm:1',
    groupRef: { name: 'tools' },
    oidcConfigRef: { name: 'corp' },
    secrets: [{ name: 'client', key: 'secret', targetEnvName: 'TOKEN' }],
    serviceAccount: 'crm',
    podTemplateSpec: {
      spec: {
        containers: [{ name: 'mcp', envFrom: [{ configMapRef: { name: 'settings' } }] }],
        volumes: [{ name: 'v', secret: { secretName: 'client' } }],
      },
    },
  }),
  ours('VirtualMCPServer', 'front', {
    groupRef: { name: 'tools' },
    config: { aggregation: { tools: [{ workload: 'crm', filter: ['a'] }] } },
  }),
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'crm' } },
]

test('references follow generated names and prefixes', () => {
  using folder = temporaryFolder({
    'objects.yaml': OBJECTS.map((one) => stringify(one)).join('---\n'),
    'kustomization.yaml': stringify({
      apiVersion: 'kustomize.config.k8s.io/v1beta1',
      kind: 'Kustomization',
      namePrefix: 'team-',
      resources: ['objects.yaml'],
      components: ['name-references'],
      secretGenerator: [{ name: 'client', literals: ['secret=s'] }],
      configMapGenerator: [{ name: 'settings', literals: ['A=b'] }],
    }),
  })
  cpSync(COMPONENT, join(folder.path, 'name-references'), { recursive: true })
  const [program, ...leading] = kubernetes()('kubectl')
  const text = execFileSync(program, [...leading, 'kustomize', folder.path], { encoding: 'utf8' })
  const built = parseAllDocuments(text).map((document) => document.toJS())
  const findSpec = (kind: string) => built.find((one) => one.kind === kind)?.spec
  const findName = (kind: string) => built.find((one) => one.kind === kind)?.metadata.name as string
  const [secret, settings] = [findName('Secret'), findName('ConfigMap')]
  assert.match(secret, /^team-client-[a-z0-9]{10}$/)
  const server = findSpec('MCPServer')
  assert.equal(
    [server.groupRef.name, server.oidcConfigRef.name, server.secrets[0].name, server.serviceAccount],
    ['team-tools', 'team-corp', secret, 'team-crm'],
  )
  const { containers, volumes } = server.podTemplateSpec.spec
  assert.equal([containers[0].envFrom[0].configMapRef.name, volumes[0].secret.secretName], [settings, secret])
  assert.is(findSpec('MCPOIDCConfig').inline.clientSecretRef.name, secret)
  const front = findSpec('VirtualMCPServer')
  assert.equal([front.groupRef.name, front.config.aggregation.tools[0].workload], ['team-tools', 'team-crm'])
})

test('the fields that kustomize can’t follow are those in the docs', () => {
  const found = Object.values(kinds).flatMap(({ kind, spec }) =>
    unreachablePlaces(spec as SchemaNode).map((place) => `${kind} ${place}`),
  )
  assert.equal(found, ['VirtualMCPServer spec/outgoingAuth/backends/*/externalAuthConfigRef/name'])
})

test.run()
