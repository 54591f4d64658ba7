import { PublicError } from '../../../server/errors.ts'
import type { Backend } from './backend.ts'

const MOST_NAMED = 10

/** The error of a request that some backends would have to be there for, which says which ones. */
export function unreachable(backends: readonly Backend[]): PublicError {
  const names = backends.slice(0, MOST_NAMED).map(({ name }) => JSON.stringify(name))
  const others = backends.length - names.length
  if (others > 0) names.push(`${others} more`)
  const [first, ...rest] = names
  if (first === undefined) return new PublicError('backend_unavailable')
  const last = rest.pop()
  const message =
    last === undefined
      ? `The backend ${first} can’t be reached.`
      : `The backends ${[first, ...rest].join(', ')} and ${last} can’t be reached.`
  const problems = backends.slice(0, MOST_NAMED).flatMap(({ caller }) => caller?.problem ?? [])
  return new PublicError('backend_unavailable', { message: [message, ...problems].join(' ') })
}
