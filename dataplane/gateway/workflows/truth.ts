import { isObject } from '../../../crds/shared/json.ts'
import { digitsOf } from './exact-json.ts'

/** Truth as Go's templates have it: what is empty or zero is false. */
export function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0
  if (!isObject(value)) return Boolean(value)
  if (digitsOf(value) !== undefined) return true
  for (const _ in value) return true
  return false
}
