import { isObject } from '../../../../crds/settings/json.ts'
import { inTurns } from '../../limits/turns.ts'
import { FIRST_OWN_ID, requestText } from '../../mcp/rpc-text.ts'
import { entryTexts } from '../../mcp/skill-entry.ts'
import { declaredSkills } from '../../mcp/skills.ts'
import type { Backend } from '../backend/backend.ts'
import { type BackendFailure, connectionFailure } from '../connection/failure.ts'
import { readResult } from '../connection/request.ts'
import { METHOD_NOT_FOUND } from '../connection/session-check.ts'
import { ITEM_KINDS, type ItemKind, listForms } from '../lists/list-kind.ts'
import { type BackendItem, type EntryNote, type ListPage, readListPage } from '../lists/list-page.ts'
import { sameTexts } from '../lists/shared-lists.ts'
import { SkillReader, skillLimits } from '../lists/skill.ts'
import { declaresNoList, ownMeta } from '../session/era.ts'
import { MOST_NOTES } from './list-tools.ts'

const MOST_PAGES = 200

/**
 * Lists the prompts, resources and templates of a backend whose tools were just listed. Returns whether anything has
 * changed. A list that can't be read keeps its last content, so that it does not affect the others.
 */
export async function refreshPromptsAndResources(backend: Backend): Promise<boolean> {
  const before = JSON.stringify(backend.capabilitiesBefore)
  backend.capabilitiesBefore = backend.capabilities
  const changed = await Promise.all(ITEM_KINDS.map((kind) => refresh(backend, kind)))
  return changed.includes(true) || before !== JSON.stringify(backend.capabilitiesBefore)
}

async function refresh(backend: Backend, kind: ItemKind): Promise<boolean> {
  const before = backend.said[kind]
  const room = backend.lists.room(kind)
  room.begin()
  const notes: EntryNote[] = []
  let after: readonly BackendItem[]
  try {
    after = hasList(backend, kind) ? await listItems(backend, kind, notes) : []
    backend.unread.delete(kind)
  } catch (error) {
    room.giveUp()
    reportUnread(backend, kind, connectionFailure(error))
    return false
  }
  room.settle()
  backend.entryNotes[kind] = notes
  if (after.length > 0) backend.has(listForms[kind].capability)
  // An unchanged list stays the same object, because others may hold it as well.
  if (sameTexts(before, after)) return false
  const taken = await backend.definitions.takeOver(before, after)
  if (kind === 'skills') await inTurns(entryTexts(taken, backend.name))
  backend.said[kind] = taken
  return true
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

async function listItems(backend: Backend, kind: ItemKind, notes: EntryNote[]): Promise<readonly BackendItem[]> {
  const items: BackendItem[] = []
  const room = backend.lists.room(kind)
  const { pages, read: readItems } = createReader(backend, kind)
  let cursor: string | undefined
  for (let page = 0; page < pages; page++) {
    const answer = await askPage(backend, listForms[kind].method, cursor)
    readResult(answer)
    const read = readItems(answer.text)
    for (const item of read.items) items.push(item)
    for (const note of read.notes) if (notes.length < MOST_NOTES) notes.push(note)
    if (room.isOver || read.nextCursor === undefined || read.nextCursor === cursor) return items
    cursor = read.nextCursor
  }
  room.end()
  return items
}

/** Returns the reader of the list's pages, and the most pages that are requested. */
function createReader(
  backend: Backend,
  kind: ItemKind,
): { readonly pages: number; read(text: string): ListPage<BackendItem> } {
  const room = backend.lists.room(kind)
  if (kind === 'skills') {
    const reader = new SkillReader(room)
    return { pages: skillLimits.pages, read: (text) => reader.read(text) }
  }
  const mayTell = (key: string, entry: string) => backend.mayTellOf(kind, key, entry)
  return {
    pages: MOST_PAGES,
    read: (text) => readListPage(text, { ...listForms[kind], kind }, { fits: room.fits, mayTell }),
  }
}

function askPage(backend: Backend, method: string, cursor: string | undefined) {
  const { era, client, ownSession } = backend
  const params = cursor === undefined ? {} : { cursor }
  return era?.era === 'modern'
    ? backend.post({
        headers: backend.modernHeaders(method),
        body: requestText(FIRST_OWN_ID, method, { ...params, _meta: ownMeta(client) }),
      })
    : ownSession.post(requestText(ownSession.ownId(), method, params), { mayBeLate: true })
}
