import { isObject } from '../../../crds/settings/json.ts'
import {
  type HeadersRead,
  isAcceptance,
  isOfType,
  isSuccess,
  redirectIn,
} from '../../../dataplane/gateway/backends/connection/answer-head.ts'
import { isListChanged } from '../../../dataplane/gateway/backends/lists/list-kind.ts'
import { parseObject } from '../../../dataplane/gateway/mcp/parse.ts'
import { isKnownEncoding } from '../../../dataplane/net/body-decoder.ts'
import { error, type Finding, note, shown, warning } from '../finding.ts'
import { type Exchange, messagesIn } from './observed-transport.ts'

const MARK = '\ufeff'

export function exchangeFindings(exchanges: readonly Exchange[], url: URL): readonly Finding[] {
  const findings = exchanges.flatMap((exchange) =>
    exchange.status === 0 ? [] : [...headFindings(exchange, url), ...bodyFindings(exchange)],
  )
  if (hasOtherIds(exchanges))
    findings.push(note('session', 'answers change the id of the session; the gateway sends the newest one'))
  const seen = new Set<string>()
  return findings.filter(({ check, message }) => {
    const key = `${check} ${message}`
    if (seen.has(key)) return false
    seen.add(key)
    return true
  })
}

/** Tells whether an answer gives a session another id than `initialize` did. */
function hasOtherIds(exchanges: readonly Exchange[]): boolean {
  const given = exchanges.flatMap(({ asked, status, headers }) => {
    const id = headers['mcp-session-id']
    return isSuccess(status) && typeof id === 'string' && id !== '' ? [{ id, isFirst: asked === 'initialize' }] : []
  })
  const opened = new Set(given.flatMap(({ id, isFirst }) => (isFirst ? [id] : [])))
  return given.some(({ id }) => !opened.has(id))
}

const nameOf = ({ asked, method }: Exchange): string => asked ?? method

function headFindings(exchange: Exchange, url: URL): readonly Finding[] {
  const { status, headers, asked, body } = exchange
  if (status >= 300 && status < 400) return [redirectFinding(exchange, url)]
  if (!isSuccess(status)) return errorFindings(exchange)
  const findings = [...encodingFindings(headers), ...sessionIdFindings(headers)]
  const type = headers['content-type']
  // The caller that needed an answer reports a missing one.
  if (asked === undefined) return findings
  if (isAcceptance({ status, headers }, body.toString('utf8')) && !messagesIn(exchange).some(isMessage))
    return asked.endsWith('/list') ? [...findings, acceptedFinding(asked, status)] : findings
  if (status !== 200) findings.push(note('status', `an answer comes with HTTP ${status}: it counts as 200`))
  if (typeof type === 'string' && (isOfType(type, 'application/json') || isOfType(type, 'text/event-stream')))
    return findings
  const said = type === undefined ? 'none' : shown(type)
  const fix = 'have the server send application/json or text/event-stream, once'
  return [...findings, error('Content-Type', `${asked} is answered with ${said}: refused`, fix)]
}

const acceptedFinding = (asked: string, status: number): Finding =>
  note('stream', `${asked} is only accepted (HTTP ${status}): its answer is read from the stream of the session`)

function encodingFindings({ 'content-encoding': encoding }: HeadersRead): Finding[] {
  if (encoding === undefined || encoding === 'identity') return []
  if (!isKnownEncoding(encoding))
    return [note('compression', `answers come as ${shown(encoding)}, which there is not: read as it is`)]
  return [note('compression', `answers come as ${shown(encoding)}, though identity was requested: decoded`)]
}

/** The longest usual id of a session: a hash or a UUID is shorter. */
const USUAL_ID = 256

function sessionIdFindings({ 'mcp-session-id': id }: HeadersRead): readonly Finding[] {
  if (id === '') return [note('session', 'initialize returns an empty session id: the same as none')]
  if (typeof id !== 'string' || (id.length <= USUAL_ID && !id.includes(' '))) return []
  return [
    note('session', `its session ids have ${id.length} characters${id.includes(' ') ? ', with spaces' : ''}: accepted`),
  ]
}

/** The statuses of JSON-RPC errors that the specification or the checks of eras, credentials and sessions account for. */
const EXPECTED: ReadonlySet<number> = new Set([400, 401, 404])

/** Reports a JSON-RPC error at a status at which official clients don't read it. */
function errorFindings(exchange: Exchange): readonly Finding[] {
  const { status, body } = exchange
  const failure = parseObject(body.toString('utf8'))?.['error']
  if (EXPECTED.has(status) || !isObject(failure)) return []
  return [
    note(
      'status',
      `${nameOf(exchange)} is answered with HTTP ${status} and the JSON-RPC error ${shown(failure)}: in calls, callers get it`,
    ),
  ]
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
  if (!isSuccess(exchange.status)) return []
  if (exchange.asked === undefined) return exchange.method === 'GET' ? lateFindings(exchange) : []
  const findings: Finding[] = []
  if (exchange.body.toString('utf8', 0, 3) === MARK)
    findings.push(note('body', 'answers begin with a byte order mark: skipped'))
  const messages = messagesIn(exchange)
  const isStream = isOfType(exchange.headers['content-type'], 'text/event-stream')
  if (isStream && exchange.hasEnded && UNFINISHED.test(exchange.body.toString('utf8')))
    findings.push(note('body', 'the last event of a stream has no empty line behind it: read all the same'))
  if (isStream && exchange.hasEnded && messages.some((message) => !isMessage(message)))
    findings.push(note('body', 'streams have events that hold no message: left out'))
  for (const message of messages) findings.push(...messageFindings(exchange.asked, message))
  return findings
}

/** Reports the form of answers that come on a session's stream. */
const lateFindings = (exchange: Exchange): readonly Finding[] =>
  messagesIn(exchange)
    .flatMap((text) => [parseMessage(text)].flat())
    .filter(isObject)
    .flatMap((message) => ('result' in message || 'error' in message ? formFindings(message) : []))

/** The end of a stream whose last event is an answer without an empty line behind it. */
const UNFINISHED = /(?:^|\n)data:[^\r\n]*"(?:result|error)"[^\r\n]*\}\r?\n?$/

/** Parses a message; undefined if the text was cut here, or is no JSON, which the reader has reported. */
function parseMessage(text: string): unknown {
  try {
    return JSON.parse(text.startsWith(MARK) ? text.slice(1) : text)
  } catch {
    return undefined
  }
}

/** Tells whether a text is a JSON-RPC message, or an array of them. */
const isMessage = (text: string): boolean =>
  [parseMessage(text)].flat().some((one) => isObject(one) && ('method' in one || 'result' in one || 'error' in one))

function messageFindings(asked: string, text: string): readonly Finding[] {
  const message = parseMessage(text)
  if (!Array.isArray(message)) return isObject(message) ? valueFindings(asked, message) : []
  const many =
    message.length === 1 ? 'one message: read as that message' : `${message.length} messages: its own is taken`
  return [
    note('body', `an answer is an array of ${many}`),
    ...message.filter(isObject).flatMap((one) => valueFindings(asked, one)),
  ]
}

type Members = Readonly<Record<string, unknown>>

function valueFindings(asked: string, message: Members): readonly Finding[] {
  const { method, result } = message
  if (asked.endsWith('/list') && isListChanged(method)) return [listLoop()]
  if (typeof method === 'string') return message['id'] === undefined ? [] : [requestFinding(asked, method)]
  return [...formFindings(message), ...(isObject(result) ? resultFindings(asked, result) : [])]
}

function requestFinding(asked: string, method: string): Finding {
  const outcome = method === 'ping' ? 'answered' : 'refused, as no client is asked'
  return note('requests', `asks for ${shownName(method)} before it answers ${asked}: ${outcome}`)
}

function formFindings(message: Members): readonly Finding[] {
  const { id, result, error: failure, jsonrpc } = message
  const findings: Finding[] = []
  if (typeof id === 'string') findings.push(note('id', 'the id of a request, a number, comes back as text: accepted'))
  if (id === null && result !== undefined)
    findings.push(note('id', 'the id of a request comes back as null: taken for that of the request'))
  if (jsonrpc === undefined) findings.push(note('body', 'answers come without jsonrpc: added'))
  else if (jsonrpc !== '2.0') findings.push(note('body', `answers name jsonrpc ${shown(jsonrpc)}: taken for "2.0"`))
  if ('method' in message || 'params' in message)
    findings.push(note('body', 'answers have members of a request: left out'))
  if (failure === null) findings.push(note('body', 'answers have error null beside the result: left out'))
  if (result === null) findings.push(note('body', 'answers have a result that is null: left out, or empty'))
  return findings
}

function resultFindings(asked: string, result: Members): readonly Finding[] {
  const findings = Object.entries(result)
    .filter(([, value]) => value === null)
    .map(([name]) => note('null', `${shownName(name)} is null in the answer to ${asked}: the same as absent`))
  if (asked.endsWith('/list') && result['next_cursor'] !== undefined && result['nextCursor'] === undefined)
    findings.push(
      warning('lists', `${asked} is answered with next_cursor: what follows is not listed`, 'call it nextCursor'),
    )
  const { capabilities } = result
  if (asked !== 'initialize' || !isObject(capabilities)) return findings
  for (const [name, value] of Object.entries(capabilities))
    if (!isObject(value))
      findings.push(
        note('session', `declares ${shownName(name)} by ${shown(value)}, no object: it is asked for its lists`),
      )
  return findings
}

const shownName = (name: string): string => shown(name).slice(1, -1)

export const listLoop = (): Finding =>
  warning(
    'list_changed',
    'says after each list that a list has changed: Portico lists at most once a second',
    'let the server say so only if something has changed',
  )
