import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiError, ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import { buildPath, childResource } from '../../../operator/cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../../operator/model/view.ts'
import { canonicalJson } from '../../../operator/render/object/canonical.ts'
import { newCluster } from '../support/cluster.ts'
import { type Edit, listEdits } from '../support/edits.ts'
import { gateway, group, manifest, server, telemetry } from '../support/manifests.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const cluster = newCluster()
const { apply } = cluster
let api: ApiServer
/** True if this file has stopped the controllers. */
let areStopped = false

const get = (kind: string, name: string) => api.get(childResource(kind), 'default', name)
const listRefused = () => cluster.plane.writes().filter(({ user, code }) => user === OPERATOR_USER && code >= 400)

/** Returns a child without what its controllers, other managers and the API server set. */
function content({ metadata, ...rest }: KubernetesObject): string {
  const { labels, annotations = {}, ownerReferences } = metadata
  const ours = Object.entries(annotations).filter(([key]) => key.startsWith('portico.dev/'))
  const { status: _, ...body } = rest
  const spec = body['spec'] as Record<string, unknown> | undefined
  for (const field of ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy']) delete spec?.[field]
  return canonicalJson({ ...body, metadata: { labels, annotations: Object.fromEntries(ours), ownerReferences } })
}

/** Patches as another manager, such as kubectl or a controller. Returns false if the API server refuses the patch. */
async function edit(kind: string, name: string, { operations }: Edit): Promise<boolean> {
  const path = buildPath(childResource(kind), 'default', name)
  try {
    await api.request('PATCH', path, {
      query: { fieldManager: 'somebody' },
      contentType: 'application/json-patch+json',
      body: operations,
    })
    return true
  } catch (error) {
    if (error instanceof ApiError && [400, 403, 409, 422].includes(error.status)) return false
    throw error
  }
}

async function putBack(kind: string, name: string, before: string, what: string): Promise<void> {
  try {
    await eventually(async () => content(await get(kind, name)) === before, what)
  } catch (error) {
    const now = JSON.stringify(await get(kind, name), null, 1)
    throw new Error(
      `${kind} ${name}: ${what}: ${(error as Error).message}\n${before}\n${now}\n${cluster.operator.log().slice(-3000)}`,
    )
  }
}

const writes = () =>
  cluster.plane.writes().filter(({ user, resource }) => user === OPERATOR_USER && resource !== 'leases')
const waitUntilQuiet = () => waitUntilStill(() => writes().length)

const stdio = (name: string) => manifest('MCPServer', name, { image: 'time:test', transport: 'stdio' })

test.before(async () => {
  await cluster.install()
  api = new ApiServer(loadKubeConfig(cluster.plane.kubeconfig), 'test')
  await cluster.startOperator()
  const several = ['', '-2', '-3', '-4'].flatMap((suffix) => [server(`web${suffix}`, 'main'), stdio(`desk${suffix}`)])
  const pair = manifest('MCPServer', 'pair', { image: 'time:test', transport: 'streamable-http', replicas: 2 })
  apply(group(), telemetry('main'), gateway('front', 'main'), ...several, pair)
  for (const [kind, name] of [
    ['Deployment', 'front-vmcp'],
    ['Deployment', 'web-4-mcp'],
    ['StatefulSet', 'desk-4-mcp'],
    ['PodDisruptionBudget', 'pair-mcp'],
  ] as const)
    await eventually(() => get(kind, name).catch(() => undefined), `${kind} ${name}`)
  // The server has no pods, so that no pod comes or goes with each edit.
  for (const suffix of ['', '-2', '-3', '-4'])
    for (const [kind, name] of [
      ['deployment', 'web'],
      ['statefulset', 'desk'],
    ] as const)
      cluster.patch(kind, `${name}${suffix}-mcp`, { spec: { replicas: 0 } }, { subresource: 'scale' })
  await waitUntilQuiet()
  // The ReplicaSets that each edit would create are left out as well.
  await cluster.plane.stopControllers()
  areStopped = true
})

test.after(async () => {
  if (areStopped) cluster.plane.startControllers()
  await cluster.stop()
})

for (const [kind, ...names] of [
  ['Service', 'vmcp-front'],
  ['ConfigMap', 'front-vmcp-config'],
  ['NetworkPolicy', 'front-vmcp'],
  ['PodDisruptionBudget', 'pair-mcp'],
  // Several children share the edits, because the operator limits its corrections of one child.
  ['Deployment', 'web-mcp', 'web-2-mcp', 'web-3-mcp', 'web-4-mcp'],
  ['StatefulSet', 'desk-mcp', 'desk-2-mcp', 'desk-3-mcp', 'desk-4-mcp'],
  ['ServiceAccount', 'desk-mcp'],
  ['Role', 'desk-mcp'],
  ['RoleBinding', 'desk-mcp'],
] as const) {
  test(`${kind}: whatever another manager changes, removes or adds is restored`, async () => {
    const created = await Promise.all(
      names.map(async (name, share) => {
        const live = await get(kind, name)
        const before = content(live)
        let count = 0
        for (const change of listEdits(live).filter((_, at) => at % names.length === share)) {
          if (!(await edit(kind, name, change))) continue
          count += 1
          await putBack(kind, name, before, change.what)
        }
        await waitUntilQuiet()
        assert.is(content(await get(kind, name)), before, 'and it stays')
        return count
      }),
    )
    const sum = created.reduce((a, b) => a + b)
    assert.ok(sum >= 5, `${sum} edits of a ${kind} were possible`)
    console.log(`${kind}: ${sum} edits`)
  })
}

test('no correction was refused', () => {
  assert.equal(
    listRefused().filter(({ code }) => code !== 404 && code !== 409),
    [],
  )
})

test.run()
