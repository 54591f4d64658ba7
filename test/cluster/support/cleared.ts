import { kinds } from '../../../crds/index.ts'
import { childKinds } from '../../../operator/cluster/kubernetes/child-kinds.ts'
import type { ControlPlane } from './control-plane.ts'
import { eventually } from './operator-process.ts'

/** Kubernetes itself keeps these in every namespace. */
const ITS_OWN = new Set(['services/kubernetes', 'configmaps/kube-root-ca.crt', 'serviceaccounts/default'])
const OURS = Object.values(kinds).map(({ plural }) => plural)
const OTHERS = ['secrets', 'pods', 'resourcequotas', 'persistentvolumeclaims', 'events', 'leases']
const PLURALS = [...OURS, ...childKinds.map(({ plural }) => plural), ...OTHERS]
const KUBERNETES = /^(default|portico-system|kube-.*)$/

/** Deletes what a test file has left in the namespace `default`, and other namespaces; throws where something stays. */
export async function cleared({ list, remove, removeAtOnce, mergePatch }: ControlPlane): Promise<void> {
  for (const { metadata } of list('namespaces')) {
    if (!KUBERNETES.test(metadata.name)) remove('namespace', metadata.name)
    if (metadata.name === 'default' && Object.keys(metadata.labels).length > 1) {
      const labels = Object.keys(metadata.labels).filter((label) => label !== 'kubernetes.io/metadata.name')
      mergePatch('namespace', 'default', { metadata: { labels: Object.fromEntries(labels.map((key) => [key, null])) } })
    }
  }
  await eventually(() => {
    let isClear = true
    for (const plural of PLURALS) {
      for (const { metadata } of list(plural)) {
        if (ITS_OWN.has(`${plural}/${metadata.name}`)) continue
        isClear = false
        // Whoever would take it off may not run any more.
        if (metadata.finalizers) mergePatch(plural, metadata.name, { metadata: { finalizers: null } })
        removeAtOnce(plural, metadata.name)
      }
    }
    return isClear
  }, 'nothing of the test file before is there any more')
}
