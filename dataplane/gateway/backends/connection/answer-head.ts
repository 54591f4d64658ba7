import { REDACTED } from '../../../config/credential-text.ts'

/** The most characters of a body that are quoted. */
const LONGEST_BEGINNING = 80

export type HeadersRead = Readonly<Record<string, string | string[] | undefined>>

/** The head of an HTTP answer without an MCP answer, to describe it to operators and callers. */
export interface AnswerHead {
  readonly status: number
  readonly headers: HeadersRead
}

/**
 * The header (a flat list) that refuses compression, because answers of backends are small and mostly relayed at once.
 * A compressed answer is decoded all the same.
 */
export const IDENTITY: readonly string[] = ['accept-encoding', 'identity']

export const isSuccess = (status: number): boolean => status >= 200 && status < 300

/** The status of a request that is accepted, whatever the body says. Official clients don't read it. */
const ACCEPTED = 202

/**
 * Tells whether an answer without an MCP answer says that the request was accepted, so that an answer may arrive on the
 * session's stream.
 */
export const isAcceptance = ({ status }: AnswerHead, body: string): boolean =>
  status === ACCEPTED || (isSuccess(status) && body.trim() === '')

const isPage = ({ headers }: AnswerHead): boolean => isOfType(headers['content-type'], 'text/html')

/** The headers of requests whose values are no credentials. */
const PLAIN =
  /^(?:accept|accept-encoding|content-type|user-agent|x-request-id|traceparent|mcp-(?:protocol-version|method|name))$/
/** Shorter values may stand in a text by chance. */
const SHORTEST_CREDENTIAL = 8

/** Returns a backend's text without the headers (a flat list) that were sent to it: some servers repeat credentials. */
export function withoutSent(text: string, headers: readonly string[]): string {
  let masked = text
  for (const [index, value] of headers.entries()) {
    if (index % 2 === 0 || PLAIN.test((headers[index - 1] as string).toLowerCase())) continue
    // A credential may stand behind its scheme.
    for (const part of [value, value.slice(value.indexOf(' ') + 1)])
      if (part.length >= SHORTEST_CREDENTIAL) masked = masked.replaceAll(part, REDACTED)
  }
  return masked
}

/**
 * Describes an answer for the log and `/status`: status, Content-Type, Location without its query, and the first
 * characters of the body. What was sent in `sent`, the headers of the request, is not repeated.
 */
export function describeDetail(head: AnswerHead, body: string, sent: readonly string[]): string {
  const { status, headers } = head
  const type = headers['content-type']
  const parts = [`HTTP ${status}`]
  if (Array.isArray(type)) parts.push(`Content-Type ${type.length} times (${type.join(' and ')})`)
  else if (body !== '') parts.push(type === undefined ? 'no Content-Type' : `Content-Type ${type}`)
  const { location } = headers
  if (typeof location === 'string') parts.push(`Location ${location.replace(/[?#].*$/s, '')}`)
  if (body === '' && isSuccess(status) && isOfType(type, 'text/event-stream')) parts.push('events without an answer')
  const beginning = withoutSent(body, sent).trim().slice(0, LONGEST_BEGINNING)
  if (beginning !== '') parts.push(JSON.stringify(beginning))
  return withoutSent(parts.join(', '), sent)
}

/** Describes an answer for callers; undefined if the standard text says the same. */
export function describePublicly(head: AnswerHead): string | undefined {
  const { status } = head
  if (isSuccess(status) && isPage(head))
    return 'The backend answers with a web page, as for a login, in the place of MCP.'
  if (isSuccess(status)) return undefined
  if (status >= 300 && status < 400) return `The backend redirects elsewhere (HTTP ${status}).`
  return `The backend answers with HTTP ${status}.`
}

const SEE_OTHER: ReadonlySet<number> = new Set([301, 302, 307, 308])
/** The redirects that keep the method. */
export const SAME_METHOD: ReadonlySet<number> = new Set([307, 308])

/**
 * Returns the path of a redirect to follow: within the origin and, except for GET, only if the redirect keeps the
 * method.
 */
export function redirectIn({ status, headers }: AnswerHead, method: string, url: URL): string | undefined {
  const { location } = headers
  if (!(method === 'GET' ? SEE_OTHER : SAME_METHOD).has(status) || typeof location !== 'string') return undefined
  const target = URL.parse(location, url.href)
  return target?.origin === url.origin ? target.pathname + target.search : undefined
}

/**
 * Tells whether a Content-Type begins with a media type, given in lower case. Its own case doesn't matter (RFC 9110,
 * 8.3.1).
 */
export function isOfType(contentType: string | string[] | undefined, type: string): boolean {
  if (typeof contentType !== 'string') return false
  return contentType.startsWith(type) || contentType.slice(0, type.length).toLowerCase() === type
}
