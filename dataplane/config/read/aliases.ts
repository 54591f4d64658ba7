import { type Document, isAlias, visit } from 'yaml'

/** The limit of aliases times nodes: the library searches the whole document for anchors. */
const MOST_STEPS = 10_000_000

/** Returns why a document's aliases are not followed: too many for any document, or for one of its size. */
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
