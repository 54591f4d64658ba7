import type { Conditions } from './conditions.ts'
import { joined, type ProblemDetail } from './problems.ts'

/** `SettingsWarning`: fields that are set and change nothing beside the others, so that nothing is ignored without a word. */
export function warnOfNoEffect(found: readonly ProblemDetail[], conditions: Conditions): void {
  if (found.length > 0) conditions.set('SettingsWarning', 'True', 'NoEffect', joined(found))
}
