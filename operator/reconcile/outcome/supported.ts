import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import { unsupportedFields } from '../../../crds/index.ts'
import { byText } from '../../model/index.ts'
import type { Problems } from './problems.ts'

/** Records every field that is set and refused: an ignored setting may be the one that restricts access. */
export function checkSupported<K extends KindDeclaration>(kind: K, object: ObjectOf<K>, problems: Problems): void {
  const found = unsupportedFields(kind, object).sort((a, b) => byText(a.pointer, b.pointer))
  for (const { pointer, reason } of found) problems.add('Valid', 'NotSupported', { pointer, message: reason })
}
