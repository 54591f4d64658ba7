import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { matches, pickWritten } from '../../../../operator/runtime/children/matches.ts'

const rendered = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: {
    name: 'a',
    labels: { app: 'a' },
    annotations: { hash: '1' },
    ownerReferences: [{ uid: 'u', kind: 'K', controller: true }],
  },
  spec: {
    template: {
      spec: {
        containers: [
          {
            name: 'vmcp',
            image: 'portico',
            env: [{ name: 'A', value: '1' }],
            ports: [{ name: 'mcp', containerPort: 4483 }],
            resources: { limits: { memory: '1Gi', cpu: '500m' } },
            volumeMounts: [{ name: 'config', mountPath: '/etc/portico/config' }],
          },
        ],
        volumes: [{ name: 'tmp', emptyDir: {} }],
      },
    },
  },
}

interface Live {
  metadata: { uid?: string; labels: Texts; annotations: Texts; ownerReferences: object[] }
  spec: {
    replicas?: number
    template: { metadata?: object; spec: { containers: [Container, ...object[]]; volumes: object[] } }
  }
  status?: object
}

interface Container {
  image: string
  imagePullPolicy?: string
  env: [Variable, ...Variable[]]
  ports: [{ protocol?: string }]
  resources: { limits: Texts }
  volumeMounts: object[]
}

type Texts = Record<string, string>
type Variable = { name: string; value: string }

/** Returns the object as the API server stores it: with defaults, and with fields of other managers. */
const live = () => {
  const object = structuredClone(rendered) as unknown as Live
  object.metadata.uid = 'x'
  object.metadata.labels['team'] = 'platform'
  object.metadata.annotations['deployment.kubernetes.io/revision'] = '3'
  object.spec.replicas = 3
  object.spec.template.metadata = { annotations: { 'kubectl.kubernetes.io/restartedAt': 'now' } }
  const [container] = object.spec.template.spec.containers
  container.imagePullPolicy = 'Always'
  container.ports[0].protocol = 'TCP'
  container.env.push({ name: 'INJECTED', value: 'x' })
  container.resources.limits['cpu'] = '0.5'
  object.spec.template.spec.containers.push({ name: 'istio-proxy', image: 'proxy' })
  object.spec.template.spec.volumes.unshift({ name: 'istio', emptyDir: {} })
  object.status = { replicas: 3 }
  return object
}

test('defaults of the server and additions of others are no difference', () => {
  assert.ok(matches(rendered, live()))
})

const edits: Record<string, (object: Live) => void> = {
  'a changed image': (object) => (object.spec.template.spec.containers[0].image = 'other'),
  'a removed container': (object) => object.spec.template.spec.containers.shift(),
  'a removed variable': (object) => object.spec.template.spec.containers[0].env.shift(),
  'a changed variable': (object) => (object.spec.template.spec.containers[0].env[0].value = '2'),
  'a changed limit': (object) => (object.spec.template.spec.containers[0].resources.limits['memory'] = '2Gi'),
  'a removed label': (object) => delete object.metadata.labels['app'],
  'a changed annotation': (object) => (object.metadata.annotations['hash'] = '2'),
  'a removed owner': (object) => (object.metadata.ownerReferences = []),
  'a removed mount': (object) => (object.spec.template.spec.containers[0].volumeMounts = []),
  'a removed volume': (object) => object.spec.template.spec.volumes.pop(),
}
for (const [name, edit] of Object.entries(edits)) {
  test(`${name} is a difference`, () => {
    const object = live()
    edit(object)
    assert.not(matches(rendered, object))
  })
}

test('lists without a merge key are compared whole and in order', () => {
  const policy = (...types: string[]) => ({ kind: 'NetworkPolicy', metadata: {}, spec: { policyTypes: types } })
  assert.ok(matches(policy('Ingress'), policy('Ingress')))
  assert.not(matches(policy('Ingress'), policy('Ingress', 'Egress')))
})

test('service ports merge by number, so a node port that the server chose is no difference', () => {
  const service = (port: object) => ({
    kind: 'Service',
    metadata: {},
    spec: { ports: [{ name: 'mcp', port: 4483, targetPort: 'mcp', ...port }] },
  })
  assert.ok(matches(service({}), service({ nodePort: 30001, protocol: 'TCP' })))
  assert.not(matches(service({}), service({ targetPort: 'admin' })))
})

test('the time to compare long lists is linear', () => {
  const volumes = Array.from({ length: 40_000 }, (_, index) => ({ name: `v${index}`, emptyDir: {} }))
  const pod = (volumes: readonly object[]) => ({ kind: 'Pod', metadata: {}, spec: { volumes } })
  const before = process.cpuUsage().user
  assert.ok(matches(pod(volumes), pod(volumes.toReversed())))
  assert.not(matches(pod(volumes), pod(volumes.slice(1))))
  assert.equal(pickWritten(pod(volumes), pod(volumes.toReversed())), pod(volumes))
  // Comparing each item with every other takes more than a minute.
  assert.ok(process.cpuUsage().user - before < 5_000_000, 'takes too long')
})

test('a quantity is a value only where quantities stand', () => {
  const buildConfigMap = (value: string) => ({ kind: 'ConfigMap', metadata: {}, data: { size: value } })
  assert.not(matches(buildConfigMap('1000m'), buildConfigMap('1')))
})

test.run()
