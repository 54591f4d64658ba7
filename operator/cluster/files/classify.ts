import { apiVersionOf, kindNamed, kinds, VERSION } from '../../../crds/index.ts'
import { closest } from '../../../crds/settings/closest.ts'
import { isCoreKind } from './core.ts'
import { isGroup, type OwnGroup, parseGroup, parseVersion } from './group.ts'
import type { ObjectFinding } from './metadata.ts'

type Classified =
  | { readonly is: 'manifest'; readonly kind: string }
  | { readonly is: 'core'; readonly kind: 'Secret' | 'ConfigMap' }
  | { readonly is: 'nothing'; readonly finding: ObjectFinding }

const nothing = (severity: 'error' | 'note', reason: string, pointer: string, message: string): Classified => ({
  is: 'nothing',
  finding: { severity, reason, message, pointer },
})

/**
 * Classifies an object by `apiVersion` and `kind`. `named`: the caller named its file, which was not just found in a
 * folder.
 */
export function classify(object: Readonly<Record<string, unknown>>, group: OwnGroup, named: boolean): Classified {
  const { apiVersion, kind } = object
  if (apiVersion === undefined && kind === undefined) {
    const looksLikeOne = named || 'metadata' in object || 'spec' in object
    if (looksLikeOne) return nothing('error', 'NotAnObject', '', 'has neither apiVersion nor kind')
    return nothing('note', 'Ignored', '', 'is not a Kubernetes object and is ignored')
  }
  if (typeof apiVersion !== 'string') return nothing('error', 'ApiVersionInvalid', '/apiVersion', 'must be set')
  if (typeof kind !== 'string') return nothing('error', 'KindInvalid', '/kind', 'must be set')
  if (apiVersion === 'v1' && isCoreKind(kind)) return { is: 'core', kind }
  return parseGroup(apiVersion) === group.name
    ? ofOurGroup(apiVersion, kind, group)
    : ofOtherGroup(apiVersion, kind, group)
}

function ofOurGroup(apiVersion: string, kind: string, { name }: OwnGroup): Classified {
  if (!kindNamed(kind)) {
    const meant = closest(kind, Object.keys(kinds))
    return nothing(
      'error',
      'KindUnknown',
      '/kind',
      `${name} has no kind ${kind}${meant ? `; did you mean ${meant}?` : ''}`,
    )
  }
  if (parseVersion(apiVersion) === VERSION) return { is: 'manifest', kind }
  return nothing('error', 'ApiVersionInvalid', '/apiVersion', `${apiVersion} is not served; use ${apiVersionOf(name)}`)
}

function ofOtherGroup(apiVersion: string, kind: string, group: OwnGroup): Classified {
  if (!kindNamed(kind)) return nothing('note', 'Ignored', '/kind', `${kind} (${apiVersion}) is not read: ignored`)
  const name = parseGroup(apiVersion)
  if (name !== '' && !isGroup(name))
    return nothing(
      'error',
      'ApiVersionInvalid',
      '/apiVersion',
      `must begin with a DNS name, as ${apiVersionOf(group.name)}`,
    )
  if (!group.chosen) return nothing('error', 'GroupsDiffer', '/apiVersion', `${apiVersion}: ${group.why}`)
  const expected = apiVersionOf(group.name)
  return nothing('note', 'Ignored', '/apiVersion', `${kind} of ${apiVersion}, not ${expected}: ignored`)
}
