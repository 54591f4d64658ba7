import { createHash } from 'node:crypto'
import type { ListKind } from './list-kind.ts'

/** An item of a list. Its other members all derive from its JSON text. */
interface Item {
  readonly text: string
  readonly source?: string | undefined
}

/**
 * Shares equal lists: callers to whom a backend shows the same texts hold one list. A list is remembered while a caller
 * holds it.
 */
export class SharedLists {
  readonly #known = new Map<string, WeakRef<readonly Item[]>>()
  readonly #gone = new FinalizationRegistry<string>((digest) => {
    // Another list with the same texts may have been added since.
    if (this.#known.get(digest)?.deref() === undefined) this.#known.delete(digest)
  })

  get count(): number {
    return this.#known.size
  }

  /**
   * Returns the remembered list of this kind with the same texts in the same order. Without one, remembers and returns
   * `list`.
   */
  same<T extends Item>(kind: ListKind, list: readonly T[]): readonly T[] {
    const digest = digestList(kind, list)
    const known = this.#known.get(digest)?.deref()
    if (known !== undefined) return known as readonly T[]
    this.#known.set(digest, new WeakRef(list))
    this.#gone.register(list, digest)
    return list
  }
}

/** Returns a digest that differs for lists that differ in kind or texts. Each text is preceded by its length. */
function digestList(kind: ListKind, list: readonly Item[]): string {
  const digest = createHash('sha256').update(kind)
  for (const { text, source = '' } of list)
    digest.update(`${text.length}:${source.length}:`).update(text).update(source)
  return digest.digest('base64url')
}

/**
 * Tells whether two lists have the same texts, both before and after repairs, because pins are digests of the texts
 * before.
 */
export function sameTexts(before: readonly Item[] | undefined, after: readonly Item[]): boolean {
  if (before?.length !== after.length) return false
  return after.every(({ text, source }, index) => text === before[index]?.text && source === before[index]?.source)
}
