import type { ClusterView, SecretPresence } from '../../model/view.ts'

/** Holds every key. */
class AnyKey extends Map<string, string> {
  override has(): boolean {
    return true
  }
}

const anySecret: SecretPresence = { keys: new AnyKey() }

/**
 * A view in which every Secret is there: those that are not among the files are expected in the cluster, where good
 * practice keeps them. Each one that is asked for is reported to `onAssumed`.
 */
export const assumeSecrets = (
  view: ClusterView,
  onAssumed: (namespace: string, name: string) => void,
): ClusterView => ({
  ...view,
  secret(namespace, name) {
    const known = view.secret(namespace, name)
    if (!known) onAssumed(namespace, name)
    return known ?? anySecret
  },
})
