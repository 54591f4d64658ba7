import { createHash } from 'node:crypto'
import type { ListKind } from './list-kind.ts'

/** An item of a list: everything that is known of it was read from its JSON text. */
interface Item {
  readonly text: string
}

/**
 * Lists by what they hold: callers to whom a backend shows the same, text by text, have one list between them. A list is
 * known for as long as somebody has it.
 */
export class SharedLists {
  readonly #known = new Map<string, WeakRef<readonly Item[]>>()
  readonly #gone = new FinalizationRegistry<string>((digest) => {
    // Another list with the same texts may have come since.
    if (this.#known.get(digest)?.deref() === undefined) this.#known.delete(digest)
  })

  /** How many lists are known. */
  get count(): number {
    return this.#known.size
  }

  /** The list of this kind that is known with the same texts in the same order; else `list`, which is known from now on. */
  same<T extends Item>(kind: ListKind, list: readonly T[]): readonly T[] {
    const digest = digestOf(kind, list)
    const known = this.#known.get(digest)?.deref()
    if (known !== undefined) return known as readonly T[]
    this.#known.set(digest, new WeakRef(list))
    this.#gone.register(list, digest)
    return list
  }
}

/** Different for all lists that differ in kind or texts: each text comes behind its length. */
function digestOf(kind: ListKind, list: readonly Item[]): string {
  const digest = createHash('sha256').update(kind)
  for (const { text } of list) digest.update(`${text.length}:`).update(text)
  return digest.digest('base64url')
}

/** Whether two lists are the same, text by text. */
export function sameTexts(before: readonly Item[] | undefined, after: readonly Item[]): boolean {
  if (before?.length !== after.length) return false
  return after.every(({ text }, index) => text === before[index]?.text)
}
