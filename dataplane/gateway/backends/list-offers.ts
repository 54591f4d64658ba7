import { listForms } from '../aggregation/list-kind.ts'
import { type BackendItem, readListPage } from '../aggregation/list-page.ts'
import type { OfferKind } from '../aggregation/offer-catalog.ts'
import { isObject } from '../mcp/message.ts'
import { requestText } from '../mcp/rpc-text.ts'
import type { Backend } from './backend.ts'
import { ownMeta } from './era.ts'
import { resultOf } from './link.ts'

const MOST_PAGES = 200
const kinds: readonly OfferKind[] = ['prompts', 'resources', 'templates']

/**
 * Asks a backend, whose tools have just been listed, for its prompts, resources and templates, and tells whether
 * anything is another than before. A list that can't be had stays: one bad list costs no other.
 */
export async function refreshOffers(backend: Backend): Promise<boolean> {
  const before = JSON.stringify(backend.capabilitiesBefore)
  backend.capabilitiesBefore = backend.capabilities
  const changed = await Promise.all(kinds.map((kind) => refresh(backend, kind)))
  return changed.includes(true) || before !== JSON.stringify(backend.capabilitiesBefore)
}

async function refresh(backend: Backend, kind: OfferKind): Promise<boolean> {
  const before = backend[kind]
  try {
    backend[kind] = isObject(backend.capabilities[listForms[kind].capability]) ? await listItems(backend, kind) : []
  } catch {
    return false
  }
  const after = backend[kind]
  return before.length !== after.length || after.some(({ text }, index) => text !== before[index]?.text)
}

async function listItems(backend: Backend, kind: OfferKind): Promise<readonly BackendItem[]> {
  const items: BackendItem[] = []
  let cursor: string | undefined
  for (let page = 0; page < MOST_PAGES; page++) {
    const { status, text } = await askPage(backend, listForms[kind].method, cursor)
    resultOf(status, text)
    const read = readListPage(text, listForms[kind])
    items.push(...read.items)
    if (read.nextCursor === undefined || read.nextCursor === cursor) break
    cursor = read.nextCursor
  }
  return items
}

function askPage(backend: Backend, method: string, cursor: string | undefined) {
  const { era, client, house } = backend
  const params = cursor === undefined ? {} : { cursor }
  return era?.era === 'modern'
    ? backend.post({
        headers: backend.modernHeaders(method),
        body: requestText('portico-list', method, { ...params, _meta: ownMeta(client) }),
      })
    : backend.post({
        headers: house.headers(),
        body: requestText(`portico-list-${house.nextId()}`, method, params),
        isInSession: true,
      })
}
