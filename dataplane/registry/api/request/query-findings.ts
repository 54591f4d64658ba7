import { type ErrorDetail, PublicError } from '../../../server/errors.ts'
import { PAGE_SIZE_RULE, parsePageSize } from '../schemas/catalog.ts'

/** Collects the faults in the parameters of a request, so that one response names all of them. */
export class QueryFindings {
  readonly details: ErrorDetail[] = []

  add(parameter: string, message: string): void {
    this.details.push({ pointer: `/${parameter}`, message })
  }

  /** Throws a PublicError `invalid_request` that lists the findings, if there are any. */
  throwIfAny(): void {
    const [first] = this.details
    if (first === undefined) return
    const { pointer, message } = first
    throw new PublicError('invalid_request', { message: `${pointer.slice(1)} ${message}`, details: this.details })
  }
}

/** Reads `limit`; the default page size if it is absent or empty. */
export function readLimit(text: string | undefined, findings: QueryFindings): number {
  const limit = parsePageSize(text)
  if (limit === undefined) findings.add('limit', PAGE_SIZE_RULE)
  return limit ?? 0
}

/** Reads a parameter that is `true` or `false`; false if it is absent or empty. */
export function readFlag(parameter: string, text: string | undefined, findings: QueryFindings): boolean {
  const given = text || 'false'
  if (given !== 'true' && given !== 'false') findings.add(parameter, 'must be true or false')
  return given === 'true'
}
