import { kinds } from '../../../crds/index.ts'
import { byText, createObjectIndex, type ObjectName } from '../../model/index.ts'
import type { ClusterView, KubernetesObject } from '../../model/view.ts'

const isIt = (object: KubernetesObject, kind: string, namespace: string, name?: string) =>
  object.kind === kind &&
  object.metadata.namespace === namespace &&
  (name === undefined || object.metadata.name === name)

const byKindAndName = (one: ObjectName, other: ObjectName) =>
  byText(one.kind, other.kind) || byText(one.name, other.name)

/**
 * The view as it will be with this object in it. What pods say is left out: it is about what was asked for before, and
 * known to the leader alone.
 */
export function overlaidView(view: ClusterView, object: KubernetesObject): ClusterView {
  const alone = createObjectIndex(kinds)
  alone.put(object)
  const { namespace: own = '', name: ownName } = object.metadata
  return {
    ...view,
    get: (kind, namespace, name) =>
      isIt(object, kind.kind, namespace, name) ? (object as never) : view.get(kind, namespace, name),
    list(kind, namespace) {
      const listed = view.list(kind, namespace)
      if (!isIt(object, kind.kind, namespace)) return listed
      const others = listed.filter(({ metadata }) => metadata.name !== ownName)
      return [...others, object as never].sort((one, other) => byText(one.metadata.name, other.metadata.name))
    },
    referrers(kind, namespace, name) {
      const found = view.referrers(kind, namespace, name)
      if (namespace !== own) return found
      const others = found.filter((one) => one.kind !== object.kind || one.name !== ownName)
      return [...others, ...alone.referrers(kind.kind, namespace, name)].sort(byKindAndName)
    },
    observe: () => undefined,
    sources: () => undefined,
  }
}
