import { stringify } from 'yaml'
import type { KubernetesObject } from '../../operator/model/index.ts'
import type { Headed } from './workload.ts'

export type SourceFacts = ReturnType<typeof sourceFacts>

const MARKS: readonly (readonly [string, RegExp])[] = [
  ['Argo CD', /^argocd\.argoproj\.io\/|^argocd-/],
  ['Flux', /^(kustomize|helm)\.toolkit\.fluxcd\.io\/|^(kustomize|helm)-controller$/],
  ['Helm', /^meta\.helm\.sh\/|^helm$/],
]

/** Returns the tool that manages an object, by its labels, annotations and field managers. */
export function managedBy({ metadata }: KubernetesObject): string | null {
  const {
    labels = {},
    annotations = {},
    managers = [],
  } = metadata as typeof metadata & { managers?: readonly string[] }
  const words = [...Object.keys(labels), ...Object.keys(annotations), ...managers]
  if (labels['app.kubernetes.io/managed-by'] === 'Helm') return 'Helm'
  return MARKS.find(([, mark]) => words.some((word) => mark.test(word)))?.[0] ?? null
}

/** Returns the manifest of an object as its author wrote it, without the members that the cluster adds. */
export function sourceFacts(object: KubernetesObject, head: Headed, file: string | undefined) {
  const { apiVersion, kind, metadata, status: _, ...rest } = object
  const { name, namespace, labels, annotations } = metadata
  const kept =
    annotations &&
    Object.entries(annotations).filter(([key]) => key !== 'kubectl.kubernetes.io/last-applied-configuration')
  const given = {
    name,
    namespace,
    ...(labels && { labels }),
    ...(kept && kept.length > 0 && { annotations: Object.fromEntries(kept) }),
  }
  return {
    ...head,
    yaml: stringify({ apiVersion, kind, metadata: given, ...rest }),
    file: file ?? null,
    /** The tool that manages the object: Argo CD, Flux or Helm; null if unknown. */
    managedBy: managedBy(object),
  }
}
