import { REDACTED } from '../config/check/url.ts'

/** Names whose values are masked. */
const SECRET = /pass|token|secret|key|auth|credential|private|cookie|session|assertion|verifier|signature|requeststate/i
const SECRETS = new RegExp(SECRET.source, 'gi')
const REST_OF_NAME = /[\w.-]*/y
/** The end of a name, with an optional (escaped) quote, and the separator between a name and its value. */
const SEPARATOR = /(\\*["'`*_]*)[^\S\n]*(?:=>|[:=>])[^\S\n]*/y
/** The quote that begins a value, with the backslashes before it. */
const QUOTE = /\\*["'`]/y
const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*-----|$)/g

export const soundsSecret = (name: string): boolean => SECRET.test(name)

/**
 * Masks prose, YAML, forms, settings, XML, logs, or broken JSON. The value of a secret name ends with its quote,
 * bracket or tag, else with its line and the lines indented below. It runs in linear time.
 */
export function maskedWords(text: string): string {
  if (!SECRET.test(text)) return text
  const plain = text.includes('-----BEGIN') ? text.replace(PRIVATE_KEY, REDACTED) : text
  let masked = ''
  let written = 0
  SECRETS.lastIndex = 0
  for (let found = SECRETS.exec(plain); found !== null; found = SECRETS.exec(plain)) {
    const nameEnd = findEnd(REST_OF_NAME, plain, SECRETS.lastIndex)
    SECRETS.lastIndex = nameEnd
    SEPARATOR.lastIndex = nameEnd
    const separator = SEPARATOR.exec(plain)
    if (separator === null) continue
    const start = SEPARATOR.lastIndex
    const isTag = separator[0].endsWith('>') && !separator[0].endsWith('=>')
    const end = isTag ? endOfElement(plain, start) : endOfValue(plain, start, separator[1] !== '')
    SECRETS.lastIndex = end
    if (plain.slice(start, end).trim() === '') continue
    masked += `${plain.slice(written, start)}${readQuoted(plain, start)}`
    written = end
  }
  return masked + plain.slice(written)
}

function findEnd(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start
  pattern.exec(text)
  return pattern.lastIndex
}

/** Returns the mask for a value, in the value's own quotes. */
function readQuoted(text: string, start: number): string {
  QUOTE.lastIndex = start
  const quote = QUOTE.exec(text)?.[0] ?? ''
  return quote + REDACTED + quote
}

/** Returns the index after a value. `isQuoted`: the name is quoted as in JSON, so more may follow on the same line. */
function endOfValue(text: string, start: number, isQuoted: boolean): number {
  QUOTE.lastIndex = start
  const quote = QUOTE.exec(text)?.[0]
  if (quote !== undefined) return endOfQuoted(text, start, quote)
  const first = text[start]
  if (first === '{' || first === '[') return endOfNested(text, start)
  return isQuoted && /[^\s|>]/.test(first ?? '') ? endOfScalar(text, start) : endOfLines(text, start)
}

/** Returns the index after a quoted text. A quote with more backslashes is part of the text. */
function endOfQuoted(text: string, start: number, quote: string): number {
  const slashes = quote.length - 1
  const mark = quote[slashes] as string
  for (let at = text.indexOf(mark, start + quote.length); at !== -1; at = text.indexOf(mark, at + 1)) {
    let before = 0
    while (before <= slashes && text[at - before - 1] === '\\') before++
    if (before <= slashes) return at + 1
  }
  return text.length
}

function endOfScalar(text: string, start: number): number {
  let at = start
  while (at < text.length && !',}]\n'.includes(text[at] as string)) at++
  return at
}

function endOfNested(text: string, start: number): number {
  let depth = 0
  let at = start
  do {
    const char = text[at]
    if (char === '"' || char === "'") at = endOfQuoted(text, at, char) - 1
    else if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']') depth--
    at++
  } while (depth > 0 && at < text.length)
  return at
}

function endOfElement(text: string, start: number): number {
  const end = text.indexOf('<', start)
  return end === -1 ? text.length : end
}

/** Returns the end of the line and of the lines below that belong to its value. */
function endOfLines(text: string, start: number): number {
  const lineStart = text.lastIndexOf('\n', start - 1) + 1
  const indent = indentAt(text, lineStart)
  let end = endOfLine(text, start)
  const isEmpty = /^(?:[|>][\d+-]*)?\s*$/.test(text.slice(start, Math.min(end, start + 8)))
  let isMissing = isEmpty
  while (end < text.length) {
    const next = end + 1
    const nextEnd = endOfLine(text, next)
    const nextIndent = indentAt(text, next)
    const isBlank = next + nextIndent >= nextEnd
    const isItem = isEmpty && text[next + nextIndent] === '-'
    if (!(isBlank || isMissing || isItem || nextIndent > indent)) break
    if (!isBlank) isMissing = false
    end = nextEnd
  }
  return end
}

function endOfLine(text: string, start: number): number {
  const end = text.indexOf('\n', start)
  return end === -1 ? text.length : end
}

function indentAt(text: string, start: number): number {
  let at = start
  while (text[at] === ' ' || text[at] === '\t') at++
  return at - start
}
