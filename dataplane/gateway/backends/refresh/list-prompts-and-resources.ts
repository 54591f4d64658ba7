import { isObject } from '../../../../crds/settings/json.ts'
import { FIRST_OWN_ID, requestText } from '../../mcp/rpc-text.ts'
import { withKnownItems } from '../../pins/definitions.ts'
import type { Backend } from '../backend/backend.ts'
import { resultOf } from '../connection/request.ts'
import { ITEM_KINDS, type ItemKind, listForms } from '../lists/list-kind.ts'
import { type BackendItem, type EntryNote, readListPage } from '../lists/list-page.ts'
import { sameTexts } from '../lists/shared-lists.ts'
import { ownMeta } from '../session/era.ts'
import { MOST_NOTES } from './list-tools.ts'

const MOST_PAGES = 200

/**
 * Lists the prompts, resources and templates of a backend whose tools have just been listed. Returns whether anything
 * has changed. A list that can't be read keeps its last content, so that one bad list does not affect the others.
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
    after = isObject(backend.capabilities[listForms[kind].capability]) ? await listItems(backend, kind, notes) : []
  } catch {
    room.giveUp()
    return false
  }
  room.settle()
  backend.entryNotes[kind] = notes
  // An unchanged list stays the same object: others may hold it as well.
  if (sameTexts(before, after)) return false
  backend.said[kind] = withKnownItems(before, after)
  return true
}

async function listItems(backend: Backend, kind: ItemKind, notes: EntryNote[]): Promise<readonly BackendItem[]> {
  const items: BackendItem[] = []
  const room = backend.lists.room(kind)
  let cursor: string | undefined
  for (let page = 0; page < MOST_PAGES; page++) {
    const answer = await askPage(backend, listForms[kind].method, cursor)
    resultOf(answer)
    const { text } = answer
    const read = readListPage(
      text,
      { ...listForms[kind], kind },
      { fits: room.fits, mayTell: (key, entry) => backend.mayTellOf(kind, key, entry) },
    )
    for (const item of read.items) items.push(item)
    for (const note of read.notes) if (notes.length < MOST_NOTES) notes.push(note)
    if (room.isOver || read.nextCursor === undefined || read.nextCursor === cursor) return items
    cursor = read.nextCursor
  }
  room.end()
  return items
}

function askPage(backend: Backend, method: string, cursor: string | undefined) {
  const { era, client, ownSession } = backend
  const params = cursor === undefined ? {} : { cursor }
  return era?.era === 'modern'
    ? backend.post({
        headers: backend.modernHeaders(method),
        body: requestText(FIRST_OWN_ID, method, { ...params, _meta: ownMeta(client) }),
      })
    : backend.post({
        headers: ownSession.headers(),
        body: requestText(ownSession.ownId(), method, params),
        isInSession: true,
      })
}
