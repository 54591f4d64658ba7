import { isObject } from '../../../../crds/settings/json.ts'
import { FIRST_OWN_ID, requestText } from '../../mcp/rpc-text.ts'
import type { Backend } from '../backend/backend.ts'
import { BackendFailure, connectionFailure } from '../connection/failure.ts'
import { type BackendAnswer, readResult } from '../connection/request.ts'
import { isKnownBy, METHOD_NOT_FOUND } from '../connection/session-check.ts'
import type { EntryNote } from '../lists/list-page.ts'
import type { ListRoom } from '../lists/list-room.ts'
import { type BackendTool, readToolPage } from '../lists/tool.ts'
import type { BackendSession } from '../session/backend-session.ts'
import { declaresNoList, isRefusal, ownMeta } from '../session/era.ts'
import type { Opened } from '../session/opened-session.ts'

const MOST_PAGES = 200
/** The most notes kept for one list. */
export const MOST_NOTES = 100

export interface Listed {
  readonly tools: readonly BackendTool[]
  readonly notes: readonly EntryNote[]
}

/** Requests all tools of a backend. Rejects with a BackendFailure. */
export async function listTools(backend: Backend): Promise<Listed> {
  const { era } = await backend.review()
  const kept = findRoom(backend)
  try {
    const listed = await (era === 'modern' ? listModern(backend) : listLegacy(backend))
    if (listed === NONE) kept.begin()
    kept.settle()
    return listed
  } catch (error) {
    kept.giveUp()
    // The request was not processed, so the backend may have changed its era.
    if (refused(error)) backend.invalidateEra()
    else if (era === 'modern') backend.doubtEra()
    throw error
  }
}

/**
 * Tells whether the backend refused the request without processing it (lost session, other era): with 404, and often
 * with 400.
 */
const refused = (error: unknown): boolean =>
  error instanceof BackendFailure && (error.status === 400 || error.status === 404 || error.status === 405)

async function listModern(backend: Backend): Promise<Listed> {
  const capabilities = backend.era?.era === 'modern' ? backend.era.capabilities : {}
  if (isObject(capabilities['tools']))
    return collect(backend, findRoom(backend), (cursor) => askModern(backend, cursor))
  // The backend declares no tools, so the probe only shows whether it is alive.
  await backend.probe()
  return NONE
}

async function listLegacy(backend: Backend): Promise<Listed> {
  return listOpened(backend, backend.ownSession, await openOwnSession(backend), findRoom(backend))
}

/**
 * Lists the tools that a backend shows in a session of the legacy era, up to the limit of `room`. Opens a new session
 * if this one has ended. Rejects with a BackendFailure.
 */
export async function listToolsIn(backend: Backend, session: BackendSession, room: ListRoom): Promise<Listed> {
  return listOpened(backend, session, await session.open(), room)
}

async function listOpened(backend: Backend, session: BackendSession, opened: Opened, room: ListRoom): Promise<Listed> {
  try {
    return await askOpened(backend, session, opened, room)
  } catch (error) {
    return askOpened(backend, session, await reopened(session, opened, error), room)
  }
}

/** Opens a new session after a list was refused in this one. Throws the refusal if this one has not ended. */
async function reopened(session: BackendSession, opened: Opened, error: unknown): Promise<Opened> {
  const failure = connectionFailure(error)
  const state = await session.checkAfter(failure, { opened, isRepeatable: true })
  if (state === 'lost') throw session.reasonFor(failure)
  // A server without session ids may have been initialized anew without getting one.
  if (state === undefined || session.opened === undefined || session.opened === opened) throw error
  return session.opened
}

/**
 * Opens the gateway's own session. A server that refuses it may have changed to the modern era, or may have answered
 * the probe too late.
 */
async function openOwnSession(backend: Backend): Promise<Opened> {
  try {
    return await backend.ownSession.open()
  } catch (error) {
    if (error instanceof BackendFailure && isRefusal(error)) backend.invalidateEra()
    throw error
  }
}

async function askOpened(
  backend: Backend,
  session: BackendSession,
  { capabilities }: Opened,
  room: ListRoom,
): Promise<Listed> {
  const ask: AskPage = (cursor) => askLegacy(session, cursor)
  if (isObject(capabilities['tools'])) return collect(backend, room, ask)
  const undeclared = declaresNoList(capabilities)
    ? await collect(backend, room, ask).catch((error) => noList(backend, error))
    : NONE
  if (undeclared.tools.length > 0) return undeclared
  // The backend declares no tools. Any answer to a ping shows that it is alive.
  const body = requestText(session.ownId(), 'ping', {})
  const answer = await session.post(body)
  const { status } = answer
  if (!isKnownBy(answer)) throw new BackendFailure('backend_failed', `answered a ping with HTTP ${status}`, { status })
  return NONE
}

const NONE: Listed = { tools: [], notes: [] }

/** Handles the refusal of a list that the backend had not declared. Throws it if there was a list before. */
function noList({ said }: Backend, error: unknown): Listed {
  const isUnknown = connectionFailure(error).rpcCode === METHOD_NOT_FOUND
  if (!isUnknown && said.tools !== undefined && said.tools.length > 0) throw error
  return NONE
}

type AskPage = (cursor: string | undefined) => Promise<BackendAnswer>

const findRoom = (backend: Backend): ListRoom => backend.lists.room('tools')

async function collect(backend: Backend, room: ListRoom, ask: AskPage): Promise<Listed> {
  const listed = await readPages(backend, room, ask)
  return { ...listed, tools: await backend.definitions.takeOver(backend.said.tools, listed.tools) }
}

async function readPages(backend: Backend, room: ListRoom, ask: AskPage): Promise<Listed> {
  room.begin()
  const tools: BackendTool[] = []
  const notes: EntryNote[] = []
  let cursor: string | undefined
  for (let page = 0; page < MOST_PAGES; page++) {
    const answer = await ask(cursor)
    readResult(answer)
    const read = readPage(backend, answer.text, room)
    for (const tool of read.items) tools.push(tool)
    for (const note of read.notes) if (notes.length < MOST_NOTES) notes.push(note)
    // A backend that repeats a cursor would never reach an end.
    if (room.isOver || read.nextCursor === undefined || read.nextCursor === cursor) return { tools, notes }
    cursor = read.nextCursor
  }
  room.end()
  return { tools, notes }
}

function readPage(backend: Backend, text: string, room: ListRoom) {
  try {
    return readToolPage(text, { fits: room.fits, mayTell: (key, entry) => backend.mayTellOf('tools', key, entry) })
  } catch (cause) {
    throw new BackendFailure('backend_failed', `tools/list: ${(cause as Error).message}`, { cause })
  }
}

const params = (cursor: string | undefined) => (cursor === undefined ? {} : { cursor })

const askModern = (backend: Backend, cursor: string | undefined) =>
  backend.post({
    headers: backend.modernHeaders('tools/list'),
    body: requestText(FIRST_OWN_ID, 'tools/list', { ...params(cursor), _meta: ownMeta(backend.client) }),
  })

const askLegacy = (session: BackendSession, cursor: string | undefined) =>
  session.post(requestText(session.ownId(), 'tools/list', params(cursor)), { mayBeLate: true })
