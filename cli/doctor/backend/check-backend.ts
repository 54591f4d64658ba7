import { setTimeout } from 'node:timers/promises'
import { pino } from 'pino'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { Backend } from '../../../dataplane/gateway/backends/backend/backend.ts'
import { createTransport } from '../../../dataplane/gateway/backends/backend/create-transport.ts'
import { isSuccess } from '../../../dataplane/gateway/backends/connection/answer-head.ts'
import { type BackendFailure, connectionFailure } from '../../../dataplane/gateway/backends/connection/failure.ts'
import { isKnownBy } from '../../../dataplane/gateway/backends/connection/session-check.ts'
import { ITEM_KINDS, isListChanged, type ListKind } from '../../../dataplane/gateway/backends/lists/list-kind.ts'
import type { EntryNote } from '../../../dataplane/gateway/backends/lists/list-page.ts'
import { ChangeStream } from '../../../dataplane/gateway/backends/refresh/change-stream.ts'
import { refreshPromptsAndResources } from '../../../dataplane/gateway/backends/refresh/list-prompts-and-resources.ts'
import { listTools } from '../../../dataplane/gateway/backends/refresh/list-tools.ts'
import { NO_EVIDENCE } from '../../../dataplane/gateway/backends/session/era.ts'
import { backendLimits } from '../../../dataplane/gateway/limits/memory-limits.ts'
import { parseObject } from '../../../dataplane/gateway/mcp/parse.ts'
import { requestText } from '../../../dataplane/gateway/mcp/rpc-text.ts'
import { Budget } from '../../../dataplane/server/budget.ts'
import { error, type Finding, note, ok, shown, warning } from '../finding.ts'
import { exchangeFindings, listLoop } from './exchange-findings.ts'
import { ObservedTransport } from './observed-transport.ts'

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
  const look = new Look(backend, transport)
  try {
    await look.whole()
    return look.diagnosis
  } finally {
    await backend.close()
    await transport.destroy()
  }
}

/** An examination of a server, step by step, as far as it gets. */
class Look {
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
      await this.#others()
      if (!this.#backend.isModern) await this.#lostSession()
      await this.#changes()
    } catch (thrown) {
      this.#findings.push(failureFinding(connectionFailure(thrown)))
    }
    const told = new Set(this.#findings.map(({ check }) => check))
    const more = exchangeFindings(this.#transport.exchanges, this.#backend.url)
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
    this.#findings.push(
      session.opened === undefined
        ? ok('session', 'it opens no session: clients of the session era are bridged')
        : ok(
            'session',
            `it opens sessions as well (${session.opened.revision}): clients are spoken to in their own era`,
          ),
    )
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
          `ping is answered with ${saidBy(answer)}: after each failed request its session is reopened`,
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
    this.#listed('tools', tools.length, notes)
  }

  async #others(): Promise<void> {
    await refreshPromptsAndResources(this.#backend)
    for (const kind of ITEM_KINDS) {
      const items = this.#backend[kind]
      const notes = this.#backend.entryNotes[kind]
      if (items.length > 0 || notes.length > 0) this.#listed(kind, items.length, notes)
    }
    const fix = 'list less, or filter at the server: one server’s lists may take 16 MiB'
    for (const text of this.#backend.lists.warnings) this.#findings.push(warning('lists', text, fix))
  }

  #listed(kind: ListKind, count: number, notes: readonly EntryNote[]): void {
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
  async #lostSession(): Promise<void> {
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
        note('lost session', `an unknown session is answered with ${saidBy(answer)}: recognised by a ping`),
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
    if (stream !== undefined) this.#findings.push(streamFinding(stream))
    changes.stop()
  }
}

function streamFinding({ status, hasEnded }: { readonly status: number; readonly hasEnded: boolean }): Finding {
  if (status === 0) return note('stream', 'the stream for unsolicited messages is not answered: it is requested again')
  if (!isSuccess(status)) return ok('stream', `no stream for unsolicited messages (HTTP ${status})`)
  if (!hasEnded) return ok('stream', 'the stream for unsolicited messages is open')
  return warning(
    'stream',
    'the stream for unsolicited messages ends at once: it is reopened after growing pauses',
    'keep the stream open, or answer GET with 405',
  )
}

function saidBy({ status, text }: { readonly status: number; readonly text: string }): string {
  const failure = parseObject(text)?.['error']
  return failure === undefined ? `HTTP ${status}` : `HTTP ${status}, ${shown(failure)}`
}

function failureFinding({ code, message, status }: BackendFailure): Finding {
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
