import { isOfType, isSuccess, redirectIn } from '../../../dataplane/gateway/backends/connection/answer-head.ts'
import { isListChanged } from '../../../dataplane/gateway/backends/lists/list-kind.ts'
import { error, type Finding, note, shown, warning } from '../finding.ts'
import { type Exchange, messagesIn } from './observed-transport.ts'

const MARK = '\ufeff'

/** Reports deviations of answers from the specification, each once, and how Portico handles them. */
export function exchangeFindings(exchanges: readonly Exchange[], url: URL): readonly Finding[] {
  const findings = exchanges.flatMap((exchange) =>
    exchange.status === 0 ? [] : [...headFindings(exchange, url), ...bodyFindings(exchange)],
  )
  const seen = new Set<string>()
  return findings.filter(({ check, message }) => {
    const key = `${check} ${message}`
    if (seen.has(key)) return false
    seen.add(key)
    return true
  })
}

const nameOf = ({ asked, method }: Exchange): string => asked ?? method

function headFindings(exchange: Exchange, url: URL): readonly Finding[] {
  const { status, headers, asked, body } = exchange
  if (status >= 300 && status < 400) return [redirectFinding(exchange, url)]
  if (!isSuccess(status)) return []
  const findings: Finding[] = []
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity')
    findings.push(note('compression', `answers come as ${shown(encoding)}, though identity was requested: decoded`))
  const type = headers['content-type']
  // The caller that needed an answer reports a missing one.
  if (asked === undefined || (type === undefined && body.length === 0)) return findings
  if (status !== 200) findings.push(note('status', `an answer comes with HTTP ${status}: it counts as 200`))
  if (typeof type === 'string' && (isOfType(type, 'application/json') || isOfType(type, 'text/event-stream')))
    return findings
  const said = type === undefined ? 'none' : shown(type)
  const fix = 'have the server send application/json or text/event-stream, once'
  return [...findings, error('Content-Type', `${asked} is answered with ${said}: refused`, fix)]
}

function redirectFinding(exchange: Exchange, url: URL): Finding {
  const { status, headers, method } = exchange
  const { location } = headers
  const target = typeof location === 'string' ? location.replace(/[?#].*$/s, '') : undefined
  const path = redirectIn({ status, headers }, method, url)
  if (path === undefined)
    return error(
      'redirect',
      `${nameOf(exchange)} is redirected (HTTP ${status}) to ${shown(target)}: refused`,
      'configure the address that it redirects to, if that is the server',
    )
  return warning(
    'redirect',
    `${nameOf(exchange)} is redirected (HTTP ${status}) to ${shown(target)}: followed`,
    `configure ${shown(new URL(path, url).href)} as its address`,
  )
}

function bodyFindings(exchange: Exchange): readonly Finding[] {
  if (!isSuccess(exchange.status) || exchange.asked === undefined) return []
  const findings: Finding[] = []
  if (exchange.body.toString('utf8', 0, 3) === MARK)
    findings.push(note('body', 'answers begin with a byte order mark: skipped'))
  for (const message of messagesIn(exchange)) findings.push(...messageFindings(exchange.asked, message))
  return findings
}

function messageFindings(asked: string, text: string): readonly Finding[] {
  let message: unknown
  try {
    message = JSON.parse(text.startsWith(MARK) ? text.slice(1) : text)
  } catch {
    // The text was cut here, or is no JSON, which the reader has reported.
    return []
  }
  if (Array.isArray(message))
    return message.length === 1 ? [note('body', 'an answer is an array of one message: read as that message')] : []
  if (typeof message !== 'object' || message === null) return []
  const { id, method } = message as { readonly id?: unknown; readonly method?: unknown }
  if (method === undefined && typeof id === 'string')
    return [note('id', 'the id of a request, a number, comes back as text: accepted')]
  if (asked.endsWith('/list') && isListChanged(method)) return [listLoop()]
  return []
}

/** Reports a server that announces a changed list after each list. */
export const listLoop = (): Finding =>
  warning(
    'list_changed',
    'says after each list that a list has changed: Portico lists at most once a second',
    'let the server say so only if something has changed',
  )
