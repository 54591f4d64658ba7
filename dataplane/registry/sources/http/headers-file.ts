import { validateHeaderName, validateHeaderValue } from 'node:http'
import { SourceError } from '../format/source-error.ts'

type Header = readonly [name: string, value: string]

function checkedHeader(name: string, value: string): Header | undefined {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return [name.toLowerCase(), value]
  } catch {
    // Node refuses the name or the value; the caller says which file it is from.
    return undefined
  }
}

/** One header, its name in lower case. Throws a SourceError where the value, which came from a file, can't be one. */
export function headerOf(name: string, value: string): Header {
  const header = checkedHeader(name, value)
  if (header === undefined) throw new SourceError('file_unreadable', `the file of ${name} holds no header value`)
  return header
}

/**
 * Reads a file of headers, one `Name: value` a line; empty lines and those that begin with `#` are passed over. Throws a
 * SourceError that names the line, never its content.
 */
export function parseHeaders(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const at = line.indexOf(':')
    const header = checkedHeader(line.slice(0, Math.max(at, 0)).trim(), line.slice(at + 1).trim())
    if (header === undefined)
      throw new SourceError('file_unreadable', `line ${index + 1} of the headers file is no header (Name: value)`)
    headers[header[0]] = header[1]
  }
  return headers
}
