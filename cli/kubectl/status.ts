import { buildTree, type Reports, reportsIn } from '../../console/facts/tree.ts'
import { readConditions } from '../../console/facts/verdict.ts'
import { runningPod } from '../../console/places/pods.ts'
import { kinds } from '../../crds/index.ts'
import { fillWorld, type KubernetesObject } from '../../operator/model/index.ts'
import { readStatusAt } from '../../operator/runtime/pods/read-pod-status.ts'
import type { Command, Io } from '../command.ts'
import { fetchLiveObjects } from '../diff/live.ts'
import { type Cluster, clusterOptions, inCluster, readWorkload } from './cluster.ts'
import { withForwarded } from './program.ts'
import { treeText } from './tree.ts'

/** Returns a pod's reports on each backend or source, by name; the reason if it reports nothing. */
async function readReports(cluster: Cluster, workload: KubernetesObject, io: Io): Promise<Reports | string> {
  try {
    const pod = await runningPod(cluster, workload)
    if (pod === undefined) return 'no pod runs'
    return reportsIn(await withForwarded({ pod, port: 'admin' }, cluster, io, readStatusAt))
  } catch (error) {
    return `the pod can’t be asked: ${(error as Error).message}`
  }
}

const isReady = (object: KubernetesObject) =>
  readConditions(object).some(({ type, status }) => type === 'Ready' && status === 'True')

export const command: Command = {
  name: 'status',
  synopsis: '[[KIND/]NAME] [options]',
  about: `Shows workloads as trees: pods and addresses, conditions that show a problem, the group with its members, and the
configurations that they name. For a named workload it also shows its backends or sources as one of its pods sees them.
Exits 1 if a workload isn’t ready.`,
  options: {
    ...clusterOptions,
    'all-namespaces': { type: 'boolean', short: 'A', description: 'Those of all namespaces.' },
    output: { type: 'string', value: ['text', 'json'], default: 'text', description: 'Form of the output.' },
  },
  mostOperands: 1,
  run: (given, io) =>
    inCluster(given, io, async (cluster) => {
      const one = given.positionals.length > 0 ? await readWorkload(given, cluster) : undefined
      const namespace = given.flag('all-namespaces') ? undefined : cluster.namespace
      const { objects } = fillWorld({ objects: await fetchLiveObjects(cluster.api, cluster.group, [namespace]) })
      const workloads = one
        ? [one]
        : objects.all().filter(({ kind }) => kinds[kind as keyof typeof kinds]?.role === 'workload')
      // Each pod needs a kubectl process of its own. For several workloads the operator's status is used instead.
      const reports = one ? await readReports(cluster, one, io) : new Map()
      const trees = workloads.map((workload) => buildTree(objects, workload, reports))
      if (given.text('output') === 'json') io.out(`${JSON.stringify(trees)}\n`)
      else io.out(treeText(trees))
      if (trees.length === 0) io.err('portico: there are no workloads')
      return workloads.every(isReady) ? 0 : 1
    }),
}
