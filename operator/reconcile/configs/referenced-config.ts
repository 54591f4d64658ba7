import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import { joined, startProblems } from '../outcome/plan.ts'
import { type Resolver, startResolver } from '../references/resolver.ts'
import type { CheckConfig } from './config.ts'

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
