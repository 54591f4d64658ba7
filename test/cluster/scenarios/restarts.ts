/** Pods that somebody restarts, and pods whose transport changes, on a real API server. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Manifest, manifest } from '../support/manifests.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()

const memory = (limit: string) => ({ resources: { limits: { memory: limit } } })
const server = (name: string, transport: string, spec: object = {}) =>
  manifest('MCPServer', name, { image: 'everything:1', transport, ...spec })

/** The object that makes the pods, for each kind of workload. */
const workloads: readonly (readonly ['Deployment' | 'StatefulSet', string, (limit: string) => Manifest])[] = [
  ['Deployment', 'web-mcp', (limit) => server('web', 'streamable-http', memory(limit))],
  ['StatefulSet', 'pipe-mcp', (limit) => server('pipe', 'stdio', memory(limit))],
  [
    'Deployment',
    'far-mcprp',
    (limit) => manifest('MCPRemoteProxy', 'far', { remoteUrl: 'https://mcp.example/mcp', ...memory(limit) }),
  ],
  [
    'Deployment',
    'front-vmcp',
    (limit) =>
      manifest('VirtualMCPServer', 'front', {
        groupRef: { name: 'tools' },
        incomingAuth: { type: 'anonymous' },
        podTemplateSpec: { spec: { containers: [{ name: 'vmcp', ...memory(limit) }] } },
      }),
  ],
  [
    'Deployment',
    'catalog-mcpreg',
    (limit) =>
      manifest('MCPRegistry', 'catalog', {
        sources: [{ name: 'own', file: { path: '/srv/registry.json' } }],
        registries: [{ name: 'main', sources: ['own'] }],
        auth: { mode: 'anonymous' },
        ...memory(limit),
      }),
  ],
]

test.before(async () => {
  await stage.start()
  stage.apply(manifest('MCPGroup', 'tools', {}))
})
test.after(() => stage.stop())

test('the effect of `kubectl rollout restart` survives later changes, for each kind', async () => {
  stage.apply(...workloads.map(([, , object]) => object('300Mi')))
  for (const [kind, name] of workloads) await stage.until(kind, name)
  stage.plane.kubectl(['rollout', 'restart', ...workloads.map(([kind, name]) => `${kind}/${name}`)])
  const readState = async ([kind, name]: (typeof workloads)[number]) => {
    const { spec } = await stage.get(kind, name)
    return spec.template.metadata.annotations['kubectl.kubernetes.io/restartedAt']
  }
  const before = await Promise.all(workloads.map(readState))
  assert.ok(before.every(Boolean), `${before}`)
  stage.apply(...workloads.map(([, , object]) => object('400Mi')))
  for (const [kind, name] of workloads)
    await stage.until(kind, name, ({ spec }) => JSON.stringify(spec.template).includes('"400Mi"'))
  assert.equal(await Promise.all(workloads.map(readState)), before)
})

test('changing the transport replaces the pods and removes all earlier children', async () => {
  const rights = ['ServiceAccount', 'Role', 'RoleBinding'] as const
  stage.apply(server('pipe', 'streamable-http'))
  await stage.until('Deployment', 'pipe-mcp')
  for (const kind of ['StatefulSet', ...rights]) await stage.waitUntilGone(kind, 'pipe-mcp')
  await stage.waitForConfig('pipe-mcp', 'url: http://127.0.0.1:')
  stage.apply(server('pipe', 'stdio'))
  await stage.until('StatefulSet', 'pipe-mcp')
  await stage.waitUntilGone('Deployment', 'pipe-mcp')
  for (const kind of rights) await stage.until(kind, 'pipe-mcp')
})

test.run()
