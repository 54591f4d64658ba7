import type { CoreObject } from '../../cluster/files/index.ts'
import type { KubernetesObject } from '../../model/view.ts'

/** Secrets and ConfigMaps as a pod of one namespace finds them; those that were rendered win over those in the files. */
export interface Sources {
  readonly namespace: string
  readonly pod: string
  secret(name: string): ReadonlyMap<string, Buffer> | undefined
  configMap(name: string): ReadonlyMap<string, Buffer> | undefined
}

type Values = ReadonlyMap<string, Buffer>

const find = (objects: readonly CoreObject[], namespace: string, name: string): Values | undefined =>
  objects.find((object) => object.namespace === namespace && object.name === name)?.values

const rendered = (children: readonly KubernetesObject[], name: string): Values | undefined => {
  const child = children.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === name)
  const content = child?.['data'] as Record<string, string> | undefined
  return content && new Map(Object.entries(content).map(([key, value]) => [key, Buffer.from(value)]))
}

export function sourcesOf(
  owner: { readonly namespace: string; readonly name: string },
  files: { readonly secrets: readonly CoreObject[]; readonly configMaps: readonly CoreObject[] },
  children: readonly KubernetesObject[],
): Sources {
  return {
    namespace: owner.namespace,
    pod: owner.name,
    secret: (name) => find(files.secrets, owner.namespace, name),
    configMap: (name) => rendered(children, name) ?? find(files.configMaps, owner.namespace, name),
  }
}
