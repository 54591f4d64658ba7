import { buildStatus, clusterAddress, reconcile } from '../../operator/reconcile/index.ts'
import { canonicalYaml } from '../../operator/render/object/canonical.ts'
import type { Command } from '../command.ts'
import { buildWorld, fetchLiveObjects } from '../diff/live.ts'
import { readSettings } from '../operator/settings.ts'
import { operatorNamespaceOption } from '../options/pod-options.ts'
import { clusterOptions, inCluster, readWorkload, WORKLOAD } from './cluster.ts'

export const command: Command = {
  name: 'render',
  synopsis: `${WORKLOAD} [options]`,
  about: `Prints the Deployment, Service and so on that a workload in the cluster becomes, as YAML, by the settings of the
cluster’s operator. If something is missing or wrong, it prints that and exits 1.`,
  options: {
    ...clusterOptions,
    status: { type: 'boolean', description: 'Add the status that follows.' },
    image: { type: 'string', value: 'IMAGE', description: 'Image of the data plane. Default: the operator’s.' },
    'operator-namespace': operatorNamespaceOption,
  },
  run: (given, io) =>
    inCluster(given, io, async ({ api, group, namespace, ...cluster }) => {
      const workload = await readWorkload(given, { api, group, namespace, ...cluster })
      const world = await buildWorld(api, await fetchLiveObjects(api, group, [namespace]), new Map())
      const object = world.objects.get(workload.kind, namespace, workload.metadata.name) ?? workload
      const settings = await readSettings(api, given, io)
      const now = new Date().toISOString().replace(/\.\d+Z$/, 'Z')
      const plan = reconcile(object, world.view, { ...settings, group, now, resolveAddress: clusterAddress })
      const children = plan.children === 'hold' ? [] : plan.children
      const documents = given.flag('status') ? [...children, buildStatus({ object, plan })] : children
      io.out(documents.map(canonicalYaml).join('---\n'))
      if (plan.children !== 'hold') return 0
      const { reason, message } = plan.status.conditions.find(({ type }) => type === 'Ready') ?? {}
      io.err(`portico: nothing is rendered: ${reason}: ${message}`)
      return 1
    }),
}
