import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { LivePodTemplate } from '../../../support/operator/live-object.ts'
import { buildWorld, context, planWorld } from '../../../support/operator/plans.ts'

/** Each kind of workload, with the name of the container that the user may patch. */
const workloads: readonly (readonly [string, string, string])[] = [
  ['MCPServer', 'mcp', 'image: example.com/a:1\n  transport: streamable-http'],
  ['MCPRemoteProxy', 'portico', 'remoteUrl: https://example.com/mcp'],
  ['VirtualMCPServer', 'vmcp', 'groupRef: {name: g}\n  incomingAuth: {type: anonymous}'],
  [
    'MCPRegistry',
    'portico',
    'sources: [{name: a, managed: {}}]\n  registries: [{name: m, sources: [a]}]\n  auth: {mode: anonymous}',
  ],
]

const GROUP = '---\nkind: MCPGroup\nmetadata: {name: g}\n'

function renderPod(kind: string, spec: string, podUsers: 'fixed' | 'platform'): LivePodTemplate['spec'] {
  const text = `kind: ${kind}\nmetadata: {name: w}\nspec:\n  ${spec}\n${GROUP}`
  const children = planWorld(buildWorld(text), { ...context, podUsers }).get(`${kind}/w`)?.children
  if (children === undefined || children === 'hold') throw new Error(`${kind} is held`)
  const pods = children.find((child) => child.kind === 'Deployment')?.['spec'] as { template: LivePodTemplate }
  return pods.template.spec
}

const users = (spec: LivePodTemplate['spec']): readonly string[] =>
  (JSON.stringify(spec).match(/"(runAsUser|runAsGroup|fsGroup)":\d+/g) ?? []).sort()

for (const [kind, container, spec] of workloads)
  test(`${kind}: if the platform assigns users and groups, only the template sets them`, () => {
    assert.ok(users(renderPod(kind, spec, 'fixed')).length >= 3, 'otherwise there are some')
    const pods = renderPod(kind, spec, 'platform')
    assert.equal(users(pods), [])
    for (const { name, securityContext } of [pods, ...pods.containers, ...(pods.initContainers ?? [])] as readonly {
      name?: string
      securityContext: { runAsNonRoot?: boolean; seccompProfile?: object }
    }[])
      assert.equal(
        [securityContext.runAsNonRoot, securityContext.seccompProfile],
        [true, { type: 'RuntimeDefault' }],
        name,
      )
    const patch = `\n  podTemplateSpec: {spec: {containers: [{name: ${container}, securityContext: {runAsUser: 7}}]}}`
    assert.equal(users(renderPod(kind, spec + patch, 'platform')), ['"runAsUser":7'])
  })

test.run()
