import { kinds } from '../../../crds/index.ts'
import { childKinds } from '../../../operator/cluster/kubernetes/resource.ts'
import type { ControlPlane } from './control-plane.ts'
import { eventually } from './operator-process.ts'

/** Objects that Kubernetes itself keeps in every namespace. */
const ITS_OWN = new Set(['services/kubernetes', 'configmaps/kube-root-ca.crt', 'serviceaccounts/default'])
const OURS = Object.values(kinds).map(({ plural }) => plural)
/** ReplicaSets too: the garbage collector takes minutes after an outage, and until then they would replace their pods. */
const OTHERS = ['replicasets', 'secrets', 'pods', 'resourcequotas', 'persistentvolumeclaims', 'events', 'leases']
const PLURALS = [...OURS, ...childKinds.map(({ plural }) => plural), ...OTHERS]
const KUBERNETES = /^(default|portico-system|kube-.*)$/

/**
 * Deletes the objects of a test file in the namespace `default`, objects of our kinds everywhere, and other namespaces.
 * Throws if an object stays.
 */
export async function clearCluster({ listMetadata, remove, removeAtOnce, mergePatch }: ControlPlane): Promise<void> {
  for (const { name, labels: all } of listMetadata('namespaces')) {
    if (!KUBERNETES.test(name)) remove('namespace', name)
    if (name === 'default' && Object.keys(all).length > 1) {
      const labels = Object.keys(all).filter((label) => label !== 'kubernetes.io/metadata.name')
      mergePatch('namespace', 'default', { metadata: { labels: Object.fromEntries(labels.map((key) => [key, null])) } })
    }
  }
  /** Deletes the objects of a kind; tells whether there were any. */
  const hasAny = (plural: string): boolean => {
    const all = listMetadata(plural, { allNamespaces: OURS.includes(plural) })
    const found = all.filter(({ name }) => !ITS_OWN.has(`${plural}/${name}`))
    for (const { name, namespace, finalizers } of found) {
      // The program that would remove the finalizer may no longer run.
      if (finalizers) mergePatch(plural, name, { metadata: { finalizers: null } }, namespace)
      removeAtOnce(plural, name, namespace)
    }
    return found.length > 0
  }
  let left = PLURALS
  await eventually(() => {
    const isWhole = left === PLURALS
    left = left.filter(hasAny)
    if (left.length > 0) throw new Error(`left: ${left.join(', ')}`)
    // The last deletions may have created objects of a kind that was already clear.
    left = PLURALS
    return isWhole
  }, 'nothing of the test file before is there any more')
}
