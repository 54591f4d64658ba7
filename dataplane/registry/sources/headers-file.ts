import { validateHeaderName, validateHeaderValue } from 'node:http'
import { SourceError } from './source-error.ts'

/**
 * Reads a file of headers, one `Name: value` a line; empty lines and those that begin with `#` are passed over. Throws a
 * SourceError that names the line, never its content.
 */
export function parseHeaders(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const at = line.indexOf(':')
    const name = line.slice(0, Math.max(at, 0)).trim()
    const value = line.slice(at + 1).trim()
    try {
      validateHeaderName(name)
      validateHeaderValue(name, value)
    } catch {
      throw new SourceError('file_unreadable', `line ${index + 1} of the headers file is no header (Name: value)`)
    }
    headers[name.toLowerCase()] = value
  }
  return headers
}
