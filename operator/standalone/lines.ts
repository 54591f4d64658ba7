import type { Readable } from 'node:stream'

/** A line longer than this is cut into pieces of it. */
const LONGEST = 8192

/** Calls back for each line of a stream of text. */
export function eachLine(stream: Readable, onLine: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line.replace(/\r$/, ''))
    if (rest.length > LONGEST) {
      onLine(rest)
      rest = ''
    }
  })
  stream.on('end', () => {
    if (rest !== '') onLine(rest)
  })
}

/** A line of our own log (pino, JSON) that a person should see; undefined for what is below a warning. */
interface LogLine {
  readonly level?: unknown
  readonly msg?: unknown
  readonly err?: { readonly message?: unknown }
}

const shownLevels = new Set(['warn', 'error', 'fatal'])

/**
 * The short form of what a data plane writes: warnings and errors as `warn: message`, other lines of its log not at
 * all, and what isn't a line of its log as it is.
 */
export function shortForm(line: string): string | undefined {
  if (!line.startsWith('{')) return line.trim() === '' ? undefined : line
  let entry: LogLine
  try {
    entry = JSON.parse(line) as LogLine
  } catch {
    return line
  }
  if (typeof entry.level !== 'string') return line
  if (!shownLevels.has(entry.level)) return undefined
  const cause =
    typeof entry.err?.message === 'string' && entry.err.message !== entry.msg ? `: ${entry.err.message}` : ''
  return `${entry.level}: ${String(entry.msg ?? '')}${cause}`
}

/** Shorter values are too likely to be part of something else. */
const SHORTEST_SECRET = 6

/** Makes a function that takes known secret values out of a text. */
export function redactor(values: Iterable<string>): (text: string) => string {
  const secrets = [
    ...new Set([...values].map((value) => value.trim()).filter((value) => value.length >= SHORTEST_SECRET)),
  ]
  secrets.sort((left, right) => right.length - left.length)
  return (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, '[redacted]'), text)
}
