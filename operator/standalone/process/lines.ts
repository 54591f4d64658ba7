import type { Readable } from 'node:stream'

/** A longer line is cut into pieces of this length. */
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

/** A line of our own log (pino, JSON). Further fields hold what the message is about. */
interface LogLine {
  readonly level?: unknown
  readonly msg?: unknown
  readonly err?: { readonly message?: unknown }
  readonly [field: string]: unknown
}

const shownLevels = new Set(['warn', 'error', 'fatal'])
/** Fields of every line (`gateway` is the writer), and the one that is shown by its message. */
const usualFields = new Set(['level', 'time', 'name', 'gateway', 'msg', 'err'])

function formatDetails(entry: LogLine): string {
  const details = Object.entries(entry)
    .filter(([field]) => !usualFields.has(field))
    .map(([field, value]) => `${field}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
  return details.length > 0 ? ` (${details.join(', ')})` : ''
}

/**
 * Shortens a line of a data plane: warnings and errors become `warn: message (field: value)`, other lines of its log
 * are dropped, and a line that isn't of its log stays as it is.
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
  return `${entry.level}: ${String(entry.msg ?? '')}${cause}${formatDetails(entry)}`
}

/** A line that names an error in the form of Node, Python, Go, Java or npm. Stacks are indented. */
const errorLine = /^(?:npm )?(?:[\w.]*(?:Error|Exception)\b|ERR!|error\b|fatal\b|panic:)/i
const MOST_ERRORS = 3
const MOST_LINES = 5

/** Returns the last output of a process for a message of one line: its errors, or the last lines if it has none. */
export function lastWords(lines: readonly string[]): string {
  const errors = lines.filter((line) => errorLine.test(line)).slice(-MOST_ERRORS)
  const said = errors.length > 0 ? errors : lines.slice(-MOST_LINES)
  return said.map((line) => line.trim()).join(' / ')
}

/** Shorter values are too likely to be part of something else. */
const SHORTEST_SECRET = 6

/** Makes a function that removes known secret values from a text. */
export function redactor(values: Iterable<string>): (text: string) => string {
  const secrets = [
    ...new Set([...values].map((value) => value.trim()).filter((value) => value.length >= SHORTEST_SECRET)),
  ]
  secrets.sort((left, right) => right.length - left.length)
  return (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, '[redacted]'), text)
}
