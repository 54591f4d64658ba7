import { isObject } from '../../../../crds/shared/json.ts'
import { detached, Elements, memberText } from '../../mcp/json.ts'
import type { ListForm } from './list-kind.ts'

/** An item of a backend's list. */
export interface BackendItem {
  /** Name, URI or URI template. */
  readonly key: string
  /** Its JSON text as the backend wrote it: what we don't know is shown unchanged. */
  readonly text: string
}

/** One page of a backend's list. */
export interface ListPage {
  readonly items: readonly BackendItem[]
  readonly nextCursor: string | undefined
}

/**
 * Reads the answer to a request for a list. Items without a key are left out; at one that `fits` refuses the list ends.
 * Throws a TypeError where the answer holds no list.
 */
export function readListPage(
  answer: string,
  { member, key }: Pick<ListForm, 'member' | 'key'>,
  fits: (textLength: number) => boolean = () => true,
): ListPage {
  const result = memberText(answer, 'result')
  const list = result === undefined ? undefined : memberText(result, member)
  if (result === undefined || list === undefined || !list.startsWith('[')) throw new TypeError(`no list of ${member}`)
  const cursor: unknown = JSON.parse(memberText(result, 'nextCursor') ?? 'null')
  const items: BackendItem[] = []
  const elements = new Elements(list, 0)
  while (elements.next()) {
    const text = elements.value
    if (!fits(text.length)) break
    const item: unknown = JSON.parse(text)
    const value = isObject(item) ? item[key] : undefined
    if (typeof value === 'string' && value !== '') items.push({ key: value, text: detached(text) })
  }
  return { items, nextCursor: typeof cursor === 'string' ? cursor : undefined }
}
