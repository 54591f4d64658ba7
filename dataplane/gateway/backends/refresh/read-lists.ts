import { isObject } from '../../../../crds/settings/json.ts'
import { runInSlices } from '../../limits/slices.ts'
import { FIRST_OWN_ID, requestText } from '../../mcp/rpc-text.ts'
import { declaredSkills, entryTexts } from '../../mcp/skills.ts'
import type { Backend } from '../backend/backend.ts'
import { BackendFailure, connectionFailure, NoRoom } from '../connection/failure.ts'
import { type BackendAnswer, readResult } from '../connection/request.ts'
import { isKnownBy, METHOD_NOT_FOUND } from '../connection/session-check.ts'
import { ITEM_KINDS, type ItemKind, listForms } from '../lists/list-kind.ts'
import { type ListRoom, sameTexts } from '../lists/list-memory.ts'
import {
  type BackendItem,
  type BackendTool,
  type EntryNote,
  type ListPage,
  readListPage,
  readToolPage,
} from '../lists/list-page.ts'
import { SkillReader, skillLimits } from '../lists/skill.ts'
import type { BackendSession } from '../session/backend-session.ts'
import { declaresNoList, isRefusal, ownMeta } from '../session/era.ts'
import type { Opened } from '../session/shared-session.ts'

const MOST_PAGES = 200
/** The most notes kept for one list. */
const MOST_NOTES = 100

interface Listed {
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
    if (isUnprocessed(error)) backend.invalidateEra()
    else if (era === 'modern') backend.doubtEra()
    throw error
  }
}

/**
 * Tells whether the backend refused the request without processing it (lost session, other era): with 404, and often
 * with 400.
 */
const isUnprocessed = (error: unknown): boolean =>
  error instanceof BackendFailure && (error.status === 400 || error.status === 404 || error.status === 405)

async function listModern(backend: Backend): Promise<Listed> {
  const capabilities = backend.era?.era === 'modern' ? backend.era.capabilities : {}
  if (isObject(capabilities['tools']))
    return collectPages(backend, findRoom(backend), (cursor) => askModern(backend, 'tools/list', cursor))
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
    return askOpened(backend, session, await reopen(session, opened, error), room)
  }
}

/** Opens a new session after a list was refused in this one. Throws the refusal if this one has not ended. */
async function reopen(session: BackendSession, opened: Opened, error: unknown): Promise<Opened> {
  const failure = connectionFailure(error)
  const state = await session.checkAfter(failure, { opened, isRepeatable: true })
  if (state === 'lost') throw session.reasonFor(failure)
  // A server without session ids may have been initialized again without getting one.
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
  const ask: AskPage = (cursor) => askLegacy(session, 'tools/list', cursor)
  if (isObject(capabilities['tools'])) return collectPages(backend, room, ask)
  const undeclared = declaresNoList(capabilities)
    ? await collectPages(backend, room, ask).catch((error) => noList(backend, error))
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
function noList({ received }: Backend, error: unknown): Listed {
  const isUnknown = connectionFailure(error).rpcCode === METHOD_NOT_FOUND
  if (!isUnknown && received.tools !== undefined && received.tools.length > 0) throw error
  return NONE
}

type Pages<T> = Omit<ListPage<T>, 'nextCursor'>

type AskPage = (cursor: string | undefined) => Promise<BackendAnswer>

const findRoom = (backend: Backend): ListRoom => backend.lists.room('tools')

async function collectPages(backend: Backend, room: ListRoom, ask: AskPage): Promise<Listed> {
  room.begin()
  const mayTell = (key: string, entry: string) => backend.mayTellOf('tools', key, entry)
  const { items, notes } = await readPages(room, MOST_PAGES, ask, (text) => {
    try {
      return readToolPage(text, { fits: room.fits, mayTell })
    } catch (cause) {
      throw new BackendFailure('backend_failed', `tools/list: ${(cause as Error).message}`, { cause })
    }
  })
  return { tools: await backend.definitions.takeOver(backend.received.tools, items), notes }
}

/** Requests the pages of a list up to their number or the limit of `room`. Rejects with a BackendFailure. */
async function readPages<T>(
  room: ListRoom,
  mostPages: number,
  ask: AskPage,
  read: (text: string) => ListPage<T>,
): Promise<Pages<T>> {
  const items: T[] = []
  const notes: EntryNote[] = []
  let cursor: string | undefined
  for (let count = 0; count < mostPages; count++) {
    const answer = await unlessFull(ask(cursor), count)
    if (answer === undefined) break
    readResult(answer)
    const page = read(answer.text)
    for (const item of page.items) items.push(item)
    for (const note of page.notes) if (notes.length < MOST_NOTES) notes.push(note)
    // A backend that repeats a cursor would never reach an end.
    if (room.isOver || page.nextCursor === undefined || page.nextCursor === cursor) return { items, notes }
    cursor = page.nextCursor
  }
  room.end()
  return { items, notes }
}

/** Returns a page; undefined if there is no room for it beside those before. Rejects if there is none for the first. */
async function unlessFull(answer: Promise<BackendAnswer>, page: number): Promise<BackendAnswer | undefined> {
  try {
    return await answer
  } catch (error) {
    if (page > 0 && error instanceof NoRoom) return undefined
    throw error
  }
}

const askModern = (backend: Backend, method: string, cursor: string | undefined) =>
  backend.post({
    headers: backend.modernHeaders(method),
    body: requestText(FIRST_OWN_ID, method, { ...withCursor(cursor), _meta: ownMeta(backend.client) }),
  })

const askLegacy = (session: BackendSession, method: string, cursor: string | undefined) =>
  session.post(requestText(session.ownId(), method, withCursor(cursor)), { mayBeLate: true })

const withCursor = (cursor: string | undefined) => (cursor === undefined ? {} : { cursor })

/**
 * Lists the prompts, resources and templates of a backend whose tools were just listed. Returns whether anything has
 * changed. A list that can't be read keeps its last content, so that it does not affect the others. The lists change
 * together at the end, because clients see them only then, and status must not count them sooner.
 */
export async function refreshPromptsAndResources(backend: Backend): Promise<boolean> {
  const before = JSON.stringify(backend.capabilitiesBefore)
  backend.capabilitiesBefore = backend.capabilities
  const lists = await Promise.all(ITEM_KINDS.map((kind) => readChanged(backend, kind)))
  for (const [index, list] of lists.entries())
    if (list !== undefined) backend.received[ITEM_KINDS[index] as ItemKind] = list
  return lists.some((list) => list !== undefined) || before !== JSON.stringify(backend.capabilitiesBefore)
}

/** Reads a list. Returns undefined if it is unchanged or can't be read. */
async function readChanged(backend: Backend, kind: ItemKind): Promise<readonly BackendItem[] | undefined> {
  const before = backend.received[kind]
  const room = backend.lists.room(kind)
  room.begin()
  let listed: Pages<BackendItem>
  try {
    listed = hasList(backend, kind) ? await listItems(backend, kind) : { items: [], notes: [] }
    backend.unread.delete(kind)
  } catch (error) {
    room.giveUp()
    reportUnread(backend, kind, connectionFailure(error))
    return undefined
  }
  room.settle()
  const { items: after, notes } = listed
  backend.entryNotes[kind] = notes
  if (after.length > 0) backend.has(listForms[kind].capability)
  // An unchanged list stays the same object, because others may hold it as well.
  if (sameTexts(before, after)) return undefined
  const taken = await backend.definitions.takeOver(before, after)
  if (kind === 'skills') await runInSlices(entryTexts(taken, backend.name))
  return taken
}

/** Logs why a list can't be read, once for each reason. A server that does not know the method has no such list. */
function reportUnread({ log, unread }: Backend, kind: ItemKind, { code, message, rpcCode }: BackendFailure): void {
  if (rpcCode === METHOD_NOT_FOUND || unread.get(kind) === message) return
  unread.set(kind, message)
  log.warn(
    { list: listForms[kind].method, code, reason: message },
    'a list can’t be read; the previous one stays in use',
  )
}

/** Tells whether the backend has declared this list or, in the session era, declares no lists at all. */
function hasList({ capabilities, declared, isModern }: Backend, kind: ItemKind): boolean {
  if (kind === 'skills') return declaredSkills(capabilities) !== undefined
  return isObject(declared[listForms[kind].capability]) || (!isModern && declaresNoList(declared))
}

/** Requests the items of a list. Rejects with a BackendFailure, or a TypeError for an answer without a list. */
async function listItems(backend: Backend, kind: ItemKind): Promise<Pages<BackendItem>> {
  const room = backend.lists.room(kind)
  const { method } = listForms[kind]
  const ask: AskPage = (cursor) =>
    backend.isModern ? askModern(backend, method, cursor) : askLegacy(backend.ownSession, method, cursor)
  if (kind === 'skills') {
    const reader = new SkillReader(room)
    return readPages(room, skillLimits.pages, ask, (text) => reader.read(text))
  }
  const form = { ...listForms[kind], kind }
  const mayTell = (key: string, entry: string) => backend.mayTellOf(kind, key, entry)
  return readPages(room, MOST_PAGES, ask, (text) => readListPage(text, form, { fits: room.fits, mayTell }))
}
