import { HEADER_NAME, unpassedHeaders } from '../../../crds/settings/header-rules.ts'
import type { Finding } from '../load.ts'

const isName = new RegExp(HEADER_NAME)
const REFUSED: ReadonlySet<string> = new Set(unpassedHeaders)

export function passthroughFindings(names: readonly string[], at: string): readonly Finding[] {
  return names.flatMap((name, index) => {
    const lower = name.toLowerCase()
    const pointer = `${at}/${index}`
    if (!isName.test(name)) return [{ pointer, message: 'is not a header name' }]
    if (REFUSED.has(lower) || lower.startsWith('x-forwarded-') || lower.startsWith('mcp-'))
      return [{ pointer, message: 'this header is never passed on' }]
    return names.findIndex((other) => other.toLowerCase() === lower) < index
      ? [{ pointer, message: 'this header is named twice' }]
      : []
  })
}
