import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import type { ClusterView, ObjectName } from '../../model/view.ts'
import { joined, type Problems, startProblems } from '../outcome/plan.ts'

export interface KeyRef {
  readonly name: string
  readonly key: string
}

/** Looks up what one object refers to. A missing reference becomes a problem that names it. */
export interface Resolver {
  readonly view: ClusterView
  readonly namespace: string
  readonly problems: Problems
  /** Returns the object of that name, or undefined after recording that it is missing. */
  object<K extends KindDeclaration>(kind: K, name: string): ObjectOf<K> | undefined
  secret(name: string): boolean
  secretKey(ref: KeyRef): boolean
  configMap(name: string): boolean
  configMapKey(ref: KeyRef): string | undefined
}

/** Finds what is wrong with a config: in its own fields (`Valid`) and in what it refers to (`ReferencesResolved`). */
export type CheckConfig<K extends KindDeclaration> = (object: ObjectOf<K>, resolver: Resolver) => void

const quote = (text: string) => JSON.stringify(text)

export function startResolver(view: ClusterView, namespace: string, problems: Problems): Resolver {
  const note = (reason: string, about: ObjectName, what: string) => {
    const message = `${about.kind} ${quote(about.name)} ${what}`
    problems.add('ReferencesResolved', reason, { about, message })
    return undefined
  }
  const missing = (reason: string, about: ObjectName) =>
    note(reason, about, view.isWrong?.(about.kind, namespace, about.name) ? 'is not valid itself' : 'is missing')
  const noSecret = (name: string) => {
    missing('SecretNotFound', { kind: 'Secret', name })
    return false
  }
  return {
    view,
    namespace,
    problems,
    object: (kind, name) => view.get(kind, namespace, name) ?? missing('ReferenceNotFound', { kind: kind.kind, name }),
    secret: (name) => view.secret(namespace, name) !== undefined || noSecret(name),
    secretKey({ name, key }) {
      const secret = view.secret(namespace, name)
      if (!secret) return noSecret(name)
      if (secret.keys.has(key)) return true
      note('SecretKeyNotFound', { kind: 'Secret', name }, `has no key ${quote(key)}`)
      return false
    },
    configMap(name) {
      const present = view.configMap(namespace, name) !== undefined
      if (!present) missing('ConfigMapNotFound', { kind: 'ConfigMap', name })
      return present
    },
    configMapKey({ name, key }) {
      const configMap = view.configMap(namespace, name)
      if (!configMap) return missing('ConfigMapNotFound', { kind: 'ConfigMap', name })
      const text = configMap.data[key]
      if (text === undefined)
        return note('ConfigMapKeyNotFound', { kind: 'ConfigMap', name }, `has no key ${quote(key)}`)
      return text
    },
  }
}

interface ConfigKind<K extends KindDeclaration> {
  readonly kind: K
  readonly check: CheckConfig<K>
}

/** Returns a valid config that a workload refers to; undefined, with a problem recorded, if it is not valid. */
export function referencedConfig<K extends KindDeclaration>(
  { kind, check }: ConfigKind<K>,
  name: string,
  resolver: Resolver,
): ObjectOf<K> | undefined {
  const object = resolver.object(kind, name)
  if (!object) return undefined
  const inner = startProblems()
  check(object, startResolver(resolver.view, resolver.namespace, inner))
  const about = { kind: kind.kind, name }
  const title = `${kind.kind} ${JSON.stringify(name)}`
  for (const condition of ['Valid', 'ReferencesResolved'] as const) {
    const found = inner.of(condition)
    if (found[0] === undefined) continue
    const reason = condition === 'Valid' ? 'ReferenceInvalid' : found[0].reason
    resolver.problems.add('ReferencesResolved', reason, { about, message: `${title}: ${joined(found)}` })
  }
  return inner.none ? object : undefined
}
