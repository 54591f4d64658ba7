import { HEADER_NAME, HEADER_VALUE } from '../../../crds/settings/header-rules.ts'
import { at } from '../../../crds/settings/json.ts'
import type { Findings } from '../load.ts'

const isName = new RegExp(HEADER_NAME)
const isValue = new RegExp(HEADER_VALUE)

export const isHeaderName = (name: string): boolean => isName.test(name)

interface NamedHeader {
  readonly name: string
  readonly pointer: string
  /** A request without this header gets the one that stands before. */
  readonly mayReplace?: boolean
}

/** Lists the headers of a map at a pointer, by name and value. */
export const listHeaders = (headers: Readonly<Record<string, string>>, pointer: string) =>
  Object.entries(headers).map(([name, value]) => ({ name, value, pointer: at(pointer, name) }))

/** Checks the values of headers. */
export function* headerValueFindings(headers: ReturnType<typeof listHeaders>): Findings {
  for (const { value, pointer } of headers)
    if (!isValue.test(value)) yield { pointer, message: 'is not a header value' }
}

/** Checks the names of headers; `owner`: who sets the reserved ones. */
export function* headerNameFindings(
  headers: readonly NamedHeader[],
  reserved: ReadonlySet<string>,
  owner: 'gateway' | 'exporter',
): Findings {
  const seen = new Set<string>()
  for (const { name, pointer, mayReplace } of headers) {
    const lower = name.toLowerCase()
    if (!isHeaderName(name)) yield { pointer, message: 'is not a header name' }
    else if (reserved.has(lower)) yield { pointer, message: `this header is set by the ${owner} itself` }
    else if (seen.has(lower) && mayReplace !== true) yield { pointer, message: 'this header is set twice' }
    else seen.add(lower)
  }
}
