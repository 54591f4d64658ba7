import { type Document, isAlias, visit } from 'yaml'

/** Aliases times nodes: the library looks for anchors in the whole document, and a merge copies what it names. */
const MOST_STEPS = 10_000_000

/** Says why a document's aliases are not followed: there are too many of them, for any document or for one of its size. */
export function aliasProblem(document: Document.Parsed, most: number): string | undefined {
  let aliases = 0
  let nodes = 0
  visit(document, {
    Node(_, node) {
      nodes++
      if (isAlias(node)) aliases++
    },
  })
  if (aliases > most) return `has more than ${most} aliases`
  return aliases * nodes > MOST_STEPS ? 'has too many aliases for its size' : undefined
}
