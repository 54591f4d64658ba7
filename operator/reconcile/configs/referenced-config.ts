import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import { joined, problemText, startProblems } from '../outcome/problems.ts'
import { unsupported } from '../outcome/supported.ts'
import { type Resolver, startResolver } from '../references/resolver.ts'
import type { CheckConfig } from './config.ts'

/** How a kind of config is made fit for use. */
interface ConfigKind<K extends KindDeclaration> {
  readonly kind: K
  readonly check: CheckConfig<K>
  /** Whether fields without a reader make the config unusable. They do unless it is false: leaving them out could let people in. */
  readonly strict?: boolean
}

/**
 * A config that a workload refers to, once it is fit for use. One that is missing, invalid, lacks something or says
 * what can't be done yet becomes a problem of the workload that names it, and gives undefined.
 */
export function referencedConfig<K extends KindDeclaration>(
  { kind, check, strict = true }: ConfigKind<K>,
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
  const ignored = strict ? unsupported(kind, object) : []
  for (const { reason, detail } of ignored)
    if (reason === 'NotYetSupported')
      resolver.problems.add('Valid', reason, { about, message: `${title}: ${problemText(detail)}` })
  return inner.none && ignored.length === 0 ? object : undefined
}
