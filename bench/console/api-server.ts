/**
 * The API server of the measurement, in a process of its own: a stand-in, or with `--real` a control plane. Usage:
 * api-server.ts WORKLOADS [--real]. Prints JSON: its URL, the path of its CA file, and tokens that may read all; a
 * stand-in has neither and takes any token. Sends the number of its lists when it gets a message, and ends with its
 * parent.
 */
import { join } from 'node:path'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { startApiStandIn } from '../../test/console/api-stand-in.ts'
import { buildObjects, NAMESPACES } from './workloads.ts'

const HOME = 'team-0'
const TOKENS = 64
const VIEWERS = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRoleBinding',
  metadata: { name: 'viewers' },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
  subjects: [{ kind: 'ServiceAccount', name: 'viewer', namespace: HOME }],
}

const [, , count, kind] = process.argv
const objects = buildObjects(Number(count))

if (kind === '--real') await startReal()
else {
  const api = await startApiStandIn(objects)
  console.log(JSON.stringify({ url: api.url }))
  process.once('disconnect', () => process.exit())
  process.on('message', () => process.send?.(api.requests.filter(({ path }) => path.includes('limit=')).length))
}

async function startReal(): Promise<void> {
  const { startControlPlane } = await import('../../test/cluster/support/control-plane.ts')
  const { installOperator } = await import('../../test/cluster/support/operator-process.ts')
  const { buildNamespace, serviceAccount } = await import('../../test/cluster/support/manifests.ts')
  const plane = await startControlPlane({ controllers: false, auditReadsOf: [`system:serviceaccount:${HOME}:viewer`] })
  process.once('disconnect', () => {
    const end = () => process.exit()
    plane.stop().then(end, end)
  })
  await installOperator(plane)
  plane.create(...Array.from({ length: NAMESPACES }, (_, index) => buildNamespace(`team-${index}`)))
  for (const object of objects) createWithStatus(object)
  plane.apply(serviceAccount('viewer', HOME), VIEWERS)
  const tokens = Array.from({ length: TOKENS }, () => plane.token('viewer', HOME))
  console.log(JSON.stringify({ url: plane.server, caFile: join(plane.directory, 'certs', 'apiserver.crt'), tokens }))
  process.on('message', () => process.send?.(plane.requests().filter(({ verb }) => verb === 'list').length))

  function createWithStatus({ status, ...object }: KubernetesObject & { readonly status?: unknown }): void {
    const { kind = '', metadata } = object
    const { name, namespace } = metadata
    plane.create({ ...object, metadata: { name, namespace } })
    plane.patch(kind, name, { status }, { namespace, subresource: 'status' })
  }
}
