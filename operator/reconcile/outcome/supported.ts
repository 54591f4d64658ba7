import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import { unsupportedFields } from '../../../crds/index.ts'
import { byText } from '../../model/index.ts'
import type { ProblemDetail, Problems } from './problems.ts'

interface Unsupported {
  readonly reason: 'NotYetSupported' | 'NotSupported'
  readonly detail: ProblemDetail
}

/** Fields that are set and that nobody acts on: not yet, or never, by pointer. */
export function unsupported<K extends KindDeclaration>(kind: K, object: ObjectOf<K>): readonly Unsupported[] {
  const found = unsupportedFields(kind, object).sort((a, b) => byText(a.pointer, b.pointer))
  return found.map(({ pointer, reason }) =>
    reason === 'later'
      ? { reason: 'NotYetSupported', detail: { pointer, joint: ' ', message: 'is not supported yet' } }
      : { reason: 'NotSupported', detail: { pointer, message: reason } },
  )
}

/** What is set and not acted on yet. */
export const notYetSupported = <K extends KindDeclaration>(kind: K, object: ObjectOf<K>): readonly ProblemDetail[] =>
  unsupported(kind, object).flatMap(({ reason, detail }) => (reason === 'NotYetSupported' ? [detail] : []))

/**
 * A workload runs only when everything that it says is acted on: a setting that is accepted and ignored may be the one
 * that keeps people out.
 */
export function checkSupported<K extends KindDeclaration>(kind: K, object: ObjectOf<K>, problems: Problems): void {
  for (const { reason, detail } of unsupported(kind, object)) problems.add('Valid', reason, detail)
}

/** A config stays valid, if not ready, while fields of it wait for their reader; what is refused for good makes it invalid. */
export function checkNotRefused<K extends KindDeclaration>(kind: K, object: ObjectOf<K>, problems: Problems): void {
  for (const { reason, detail } of unsupported(kind, object))
    if (reason === 'NotSupported') problems.add('Valid', reason, detail)
}
