import type { Conditions } from './conditions.ts'
import { joined, type ProblemDetail } from './problems.ts'

/** Sets `SettingsWarning` for fields that have no effect beside the others, so that nothing is ignored silently. */
export function warnOfNoEffect(found: readonly ProblemDetail[], conditions: Conditions): void {
  if (found.length > 0) conditions.set('SettingsWarning', 'True', 'NoEffect', joined(found))
}
