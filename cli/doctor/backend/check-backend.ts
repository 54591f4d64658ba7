import { setTimeout } from 'node:timers/promises'
import { pino } from 'pino'
import { isObject } from '../../../crds/settings/json.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { Backend } from '../../../dataplane/gateway/backends/backend/backend.ts'
import { createTransport } from '../../../dataplane/gateway/backends/backend/create-transport.ts'
import { type BackendFailure, connectionFailure } from '../../../dataplane/gateway/backends/connection/failure.ts'
import {
  type HeadersRead,
  isAcceptance,
  isOfType,
  isSuccess,
  redirectIn,
} from '../../../dataplane/gateway/backends/connection/http.ts'
import { isKnownBy } from '../../../dataplane/gateway/backends/connection/session-check.ts'
import { ITEM_KINDS, isListChanged, type ListKind } from '../../../dataplane/gateway/backends/lists/list-kind.ts'
import type { EntryNote } from '../../../dataplane/gateway/backends/lists/list-page.ts'
import { ChangeStream } from '../../../dataplane/gateway/backends/refresh/change-stream.ts'
import { listTools, refreshPromptsAndResources } from '../../../dataplane/gateway/backends/refresh/read-lists.ts'
import { NO_EVIDENCE } from '../../../dataplane/gateway/backends/session/era.ts'
import { backendLimits } from '../../../dataplane/gateway/limits/memory-limits.ts'
import { parseObject } from '../../../dataplane/gateway/mcp/json.ts'
import { requestText } from '../../../dataplane/gateway/mcp/rpc-text.ts'
import { isKnownEncoding } from '../../../dataplane/net/body-decoder.ts'
import { Budget } from '../../../dataplane/server/budget.ts'
import { error, type Finding, formatValue, note, ok, warning } from '../finding.ts'
import { type Exchange, ObservedTransport, readMessages } from './observed-transport.ts'

export interface BackendDiagnosis {
  readonly url: string
  /** Undefined if it could not be determined. */
  readonly era: 'session' | 'stateless' | undefined
  readonly revision: string | undefined
  readonly lists: Readonly<Partial<Record<ListKind, number>>>
  readonly findings: readonly Finding[]
}

const QUIET_MS = 700
const TIMEOUT = '10s'

/** Queries an MCP server by a gateway's own readers, and reports how Portico handles its deviations. Calls no tool. */
export async function checkBackend(config: BackendConfig, version: string): Promise<BackendDiagnosis> {
  const log = pino({ level: 'silent' })
  const share = new Budget(backendLimits()).shareOf('backend')
  const directory = process.cwd()
  const transport = new ObservedTransport(createTransport({ config, directory, log, share }))
  const client = { name: 'portico', version }
  const backend = new Backend({ config, directory, defaultTimeout: TIMEOUT, client, log, share, transport })
  const examination = new Examination(backend, transport)
  try {
    await examination.whole()
    return examination.diagnosis
  } finally {
    await backend.close()
    await transport.destroy()
  }
}

/** An examination of a server, step by step, as far as it gets. */
class Examination {
  readonly #backend: Backend
  readonly #transport: ObservedTransport
  readonly #findings: Finding[] = []
  readonly #lists: Partial<Record<ListKind, number>> = {}

  constructor(backend: Backend, transport: ObservedTransport) {
    this.#backend = backend
    this.#transport = transport
  }

  get diagnosis(): BackendDiagnosis {
    const { era, revision, url } = this.#backend
    return {
      url: url.href.replace(/[?#].*$/s, ''),
      era: era === undefined ? undefined : era.era === 'modern' ? 'stateless' : 'session',
      revision: revision ?? undefined,
      lists: this.#lists,
      findings: this.#findings,
    }
  }

  async whole(): Promise<void> {
    try {
      await this.#era()
      if (this.#backend.isModern) await this.#otherEra()
      else await this.#session()
      await this.#tools()
      await this.#checkOtherLists()
      if (!this.#backend.isModern) await this.#checkLostSession()
      await this.#changes()
    } catch (thrown) {
      this.#findings.push(reportFailure(connectionFailure(thrown)))
    }
    const told = new Set(this.#findings.map(({ check }) => check))
    const more = checkExchanges(this.#transport.exchanges, this.#backend.url)
    this.#findings.push(...more.filter(({ check }) => check !== 'list_changed' || !told.has(check)))
  }

  async #era(): Promise<void> {
    const { era } = await this.#backend.detect()
    const { status = 0 } = this.#transport.last('server/discover') ?? {}
    if (era === 'modern') this.#findings.push(ok('era', 'stateless, 2026-07-28: server/discover says so'))
    else if (status === 0 || status >= 500 || NO_EVIDENCE.has(status))
      this.#findings.push(
        warning(
          'era',
          `server/discover is ${status === 0 ? 'not answered' : `answered with HTTP ${status}`}, which proves nothing; initialize shows that it has sessions`,
          'set protocolEra: session, so that it is not probed',
        ),
      )
    else this.#findings.push(ok('era', `sessions: server/discover is answered with HTTP ${status}`))
  }

  async #otherEra(): Promise<void> {
    const session = this.#backend.newSession()
    await this.#backend.legacySupport.open(session)
    const message =
      session.opened === undefined
        ? 'it opens no session: clients of the session era are bridged'
        : `it opens sessions as well (${session.opened.revision}): clients are spoken to in their own era`
    this.#findings.push(ok('session', message))
    this.#backend.closeSession(session)
  }

  async #session(): Promise<void> {
    const { sessionId, revision } = await this.#backend.ownSession.open()
    this.#findings.push(
      sessionId === undefined && !this.#backend.hasStreamSessions
        ? note(
            'session',
            `initialize (${revision}) returns no session id: the server has no sessions, and can’t send requests to clients`,
          )
        : ok('session', `initialize opens a session (${revision})`),
    )
    const body = requestText(this.#backend.ownSession.ownId(), 'ping', {})
    const answer = await this.#backend.post({ headers: this.#backend.ownSession.headers(), body, isInSession: true })
    if (!isKnownBy(answer))
      this.#findings.push(
        error(
          'ping',
          `ping is answered with ${describeAnswer(answer)}: after each failed request its session is reopened`,
          'have the server answer ping with an empty result',
        ),
      )
    else if (answer.text === '')
      this.#findings.push(note('ping', `answered with HTTP ${answer.status} and no message: accepted as an answer`))
    else if (parseObject(answer.text)?.['error'] !== undefined)
      this.#findings.push(note('ping', 'it has no ping (-32601): accepted as an answer'))
    else this.#findings.push(ok('ping', 'answered'))
  }

  async #tools(): Promise<void> {
    const { tools, notes } = await listTools(this.#backend)
    this.#addList('tools', tools.length, notes)
  }

  async #checkOtherLists(): Promise<void> {
    await refreshPromptsAndResources(this.#backend)
    for (const kind of ITEM_KINDS) {
      const items = this.#backend[kind]
      const notes = this.#backend.entryNotes[kind]
      if (items.length > 0 || notes.length > 0) this.#addList(kind, items.length, notes)
    }
    const fix = 'list less, or filter at the server: one server’s lists may take 16 MiB'
    for (const text of this.#backend.lists.warnings) this.#findings.push(warning('lists', text, fix))
  }

  #addList(kind: ListKind, count: number, notes: readonly EntryNote[]): void {
    this.#lists[kind] = count
    this.#findings.push(ok(kind, `${count} listed`))
    for (const { isLeftOut, message } of notes)
      this.#findings.push(
        isLeftOut
          ? warning(kind, message, 'correct the entry: official clients refuse a list with it')
          : note(kind, message),
      )
  }

  /** Checks the server's answer for a session that it does not know. */
  async #checkLostSession(): Promise<void> {
    const { ownSession, url } = this.#backend
    if (ownSession.opened?.sessionId === undefined || url.protocol === 'stdio:' || this.#backend.hasStreamSessions)
      return
    const headers = ownSession.headers()
    headers[headers.indexOf('mcp-session-id') + 1] = crypto.randomUUID()
    const body = requestText(ownSession.ownId(), 'ping', {})
    const answer = await this.#backend.post({ headers, body })
    if (answer.status === 404) this.#findings.push(ok('lost session', 'an unknown session is answered with 404'))
    else if (isKnownBy(answer))
      this.#findings.push(
        warning(
          'lost session',
          `a ping in a session that it never gave is answered (HTTP ${answer.status}): a lost session is not noticed`,
          'have the server answer an unknown Mcp-Session-Id with 404',
        ),
      )
    else
      this.#findings.push(
        note('lost session', `an unknown session is answered with ${describeAnswer(answer)}: recognised by a ping`),
      )
  }

  /** Checks the server's stream, and whether the server announces a changed list after each list. */
  async #changes(): Promise<void> {
    const { ownSession, isModern } = this.#backend
    let told = 0
    const changes = new ChangeStream(this.#backend, () => told++)
    if (isModern) changes.keep()
    else
      ownSession.inbox.subscribe((bytes) => {
        if (isListChanged(parseObject(bytes.toString('utf8'))?.['method'])) told++
      })
    await ownSession.inbox.subscribing
    await listTools(this.#backend)
    await setTimeout(QUIET_MS)
    if (told > 0) this.#findings.push(listLoop())
    const stream = this.#transport.exchanges.findLast(
      ({ method, asked, status }) =>
        (method === 'GET' || asked === 'subscriptions/listen') && (status < 300 || status > 399),
    )
    if (stream !== undefined) this.#findings.push(reportStream(stream))
    changes.stop()
  }
}

function reportStream({ status, hasEnded }: { readonly status: number; readonly hasEnded: boolean }): Finding {
  if (status === 0) return note('stream', 'the stream for unsolicited messages is not answered: it is requested again')
  if (!isSuccess(status)) return ok('stream', `no stream for unsolicited messages (HTTP ${status})`)
  if (!hasEnded) return ok('stream', 'the stream for unsolicited messages is open')
  return warning(
    'stream',
    'the stream for unsolicited messages ends at once: it is reopened after growing pauses',
    'keep the stream open, or answer GET with 405',
  )
}

function describeAnswer({ status, text }: { readonly status: number; readonly text: string }): string {
  const failure = parseObject(text)?.['error']
  return failure === undefined ? `HTTP ${status}` : `HTTP ${status}, ${formatValue(failure)}`
}

function reportFailure({ code, message, status }: BackendFailure): Finding {
  if (status === 401 || status === 403)
    return error('credential', message, 'give the credential with --header or --header-file')
  if (status === undefined)
    return error(
      'connection',
      message,
      code === 'backend_timeout'
        ? 'check that the server runs and is not overloaded'
        : 'check address, port, name and certificate',
    )
  return error('answer', message, 'check the path of the address, and the server’s log')
}

const MARK = '\ufeff'

function checkExchanges(exchanges: readonly Exchange[], url: URL): readonly Finding[] {
  const findings = exchanges.flatMap((exchange) =>
    exchange.status === 0 ? [] : [...checkHead(exchange, url), ...checkBody(exchange)],
  )
  if (hasOtherIds(exchanges))
    findings.push(note('session', 'answers change the id of the session; the gateway sends the newest one'))
  const byText = Map.groupBy(findings, ({ check, message }) => `${check} ${message}`)
  return [...byText.values()].flatMap(([first]) => first ?? [])
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

const formatName = ({ asked, method }: Exchange): string => asked ?? method

function checkHead(exchange: Exchange, url: URL): readonly Finding[] {
  const { status, headers, asked, body } = exchange
  if (status >= 300 && status < 400) return [reportRedirect(exchange, url)]
  if (!isSuccess(status)) return checkErrorStatus(exchange)
  const findings = [...checkEncoding(headers), ...checkSessionId(headers)]
  const type = headers['content-type']
  // The caller that needed an answer reports a missing one.
  if (asked === undefined) return findings
  if (isAcceptance({ status, headers }, body.toString('utf8')) && !readMessages(exchange).some(isMessage))
    return asked.endsWith('/list') ? [...findings, reportAccepted(asked, status)] : findings
  if (status !== 200) findings.push(note('status', `an answer comes with HTTP ${status}: it counts as 200`))
  if (typeof type === 'string' && (isOfType(type, 'application/json') || isOfType(type, 'text/event-stream')))
    return findings
  const said = type === undefined ? 'none' : formatValue(type)
  const fix = 'have the server send application/json or text/event-stream, once'
  return [...findings, error('Content-Type', `${asked} is answered with ${said}: refused`, fix)]
}

const reportAccepted = (asked: string, status: number): Finding =>
  note('stream', `${asked} is only accepted (HTTP ${status}): its answer is read from the stream of the session`)

function checkEncoding({ 'content-encoding': encoding }: HeadersRead): Finding[] {
  if (encoding === undefined || encoding === 'identity') return []
  if (!isKnownEncoding(encoding))
    return [note('compression', `answers come as ${formatValue(encoding)}, which there is not: read as it is`)]
  return [note('compression', `answers come as ${formatValue(encoding)}, though identity was requested: decoded`)]
}

/** The longest usual id of a session: a hash or a UUID is shorter. */
const USUAL_ID = 256

function checkSessionId({ 'mcp-session-id': id }: HeadersRead): readonly Finding[] {
  if (id === '') return [note('session', 'initialize returns an empty session id: the same as none')]
  if (typeof id !== 'string' || (id.length <= USUAL_ID && !id.includes(' '))) return []
  return [
    note('session', `its session ids have ${id.length} characters${id.includes(' ') ? ', with spaces' : ''}: accepted`),
  ]
}

/** The statuses of JSON-RPC errors that the specification or the checks of eras, credentials and sessions account for. */
const EXPECTED: ReadonlySet<number> = new Set([400, 401, 404])

/** Reports a JSON-RPC error at a status at which official clients don't read it. */
function checkErrorStatus(exchange: Exchange): readonly Finding[] {
  const { status, body } = exchange
  const failure = parseObject(body.toString('utf8'))?.['error']
  if (EXPECTED.has(status) || !isObject(failure)) return []
  return [
    note(
      'status',
      `${formatName(exchange)} is answered with HTTP ${status} and the JSON-RPC error ${formatValue(failure)}: in calls, callers get it`,
    ),
  ]
}

function reportRedirect(exchange: Exchange, url: URL): Finding {
  const { status, headers, method } = exchange
  const { location } = headers
  const target = typeof location === 'string' ? location.replace(/[?#].*$/s, '') : undefined
  const what = `${formatName(exchange)} is redirected (HTTP ${status}) to ${formatValue(target)}`
  const path = redirectIn({ status, headers }, method, url)
  if (path === undefined)
    return error('redirect', `${what}: refused`, 'configure the address that it redirects to, if that is the server')
  return warning('redirect', `${what}: followed`, `configure ${formatValue(new URL(path, url).href)} as its address`)
}

function checkBody(exchange: Exchange): readonly Finding[] {
  if (!isSuccess(exchange.status)) return []
  if (exchange.asked === undefined) return exchange.method === 'GET' ? checkStreamMessages(exchange) : []
  const findings: Finding[] = []
  if (exchange.body.toString('utf8', 0, 3) === MARK)
    findings.push(note('body', 'answers begin with a byte order mark: skipped'))
  const messages = readMessages(exchange)
  const isStream = isOfType(exchange.headers['content-type'], 'text/event-stream')
  if (isStream && exchange.hasEnded && UNFINISHED.test(exchange.body.toString('utf8')))
    findings.push(note('body', 'the last event of a stream has no empty line behind it: read all the same'))
  if (isStream && exchange.hasEnded && messages.some((message) => !isMessage(message)))
    findings.push(note('body', 'streams have events that hold no message: left out'))
  for (const message of messages) findings.push(...checkMessage(exchange.asked, message))
  return findings
}

/** Reports the form of answers that come on a session's stream. */
const checkStreamMessages = (exchange: Exchange): readonly Finding[] =>
  readMessages(exchange)
    .flatMap((text) => [parseMessage(text)].flat())
    .filter(isObject)
    .flatMap((message) => ('result' in message || 'error' in message ? checkForm(message) : []))

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

function checkMessage(asked: string, text: string): readonly Finding[] {
  const message = parseMessage(text)
  if (!Array.isArray(message)) return isObject(message) ? checkMembers(asked, message) : []
  const many =
    message.length === 1 ? 'one message: read as that message' : `${message.length} messages: its own is taken`
  return [
    note('body', `an answer is an array of ${many}`),
    ...message.filter(isObject).flatMap((one) => checkMembers(asked, one)),
  ]
}

type Members = Readonly<Record<string, unknown>>

function checkMembers(asked: string, message: Members): readonly Finding[] {
  const { method, result } = message
  if (asked.endsWith('/list') && isListChanged(method)) return [listLoop()]
  if (typeof method === 'string') return message['id'] === undefined ? [] : [reportRequest(asked, method)]
  return [...checkForm(message), ...(isObject(result) ? checkResult(asked, result) : [])]
}

function reportRequest(asked: string, method: string): Finding {
  const outcome = method === 'ping' ? 'answered' : 'refused, as no client is asked'
  return note('requests', `asks for ${quoteName(method)} before it answers ${asked}: ${outcome}`)
}

function checkForm(message: Members): readonly Finding[] {
  const { id, result, error: failure, jsonrpc } = message
  const findings: Finding[] = []
  if (typeof id === 'string') findings.push(note('id', 'the id of a request, a number, comes back as text: accepted'))
  if (id === null && result !== undefined)
    findings.push(note('id', 'the id of a request comes back as null: taken for that of the request'))
  if (jsonrpc === undefined) findings.push(note('body', 'answers come without jsonrpc: added'))
  else if (jsonrpc !== '2.0')
    findings.push(note('body', `answers name jsonrpc ${formatValue(jsonrpc)}: taken for "2.0"`))
  if ('method' in message || 'params' in message)
    findings.push(note('body', 'answers have members of a request: left out'))
  if (failure === null) findings.push(note('body', 'answers have error null beside the result: left out'))
  if (result === null) findings.push(note('body', 'answers have a result that is null: left out, or empty'))
  return findings
}

function checkResult(asked: string, result: Members): readonly Finding[] {
  const findings = Object.entries(result)
    .filter(([, value]) => value === null)
    .map(([name]) => note('null', `${quoteName(name)} is null in the answer to ${asked}: the same as absent`))
  if (asked.endsWith('/list') && result['next_cursor'] !== undefined && result['nextCursor'] === undefined)
    findings.push(
      warning('lists', `${asked} is answered with next_cursor: what follows is not listed`, 'call it nextCursor'),
    )
  const { capabilities } = result
  if (asked !== 'initialize' || !isObject(capabilities)) return findings
  for (const [name, value] of Object.entries(capabilities))
    if (!isObject(value))
      findings.push(
        note('session', `declares ${quoteName(name)} by ${formatValue(value)}, no object: it is asked for its lists`),
      )
  return findings
}

const quoteName = (name: string): string => formatValue(name).slice(1, -1)

const listLoop = (): Finding =>
  warning(
    'list_changed',
    'says after each list that a list has changed: Portico lists at most once a second',
    'let the server say so only if something has changed',
  )
