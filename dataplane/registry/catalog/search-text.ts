/** Builds the text that a search looks through. Each field is a line of its own, so that no match spans two. */
export function searchText(...fields: readonly (string | null)[]): string {
  return fields
    .filter((field) => field !== null)
    .map(foldTerm)
    .join('\n')
}

/**
 * Folds a text so that case and width don't matter in a search. A search term is folded as the searched text was: once,
 * since a second fold may change it (`J̌`).
 */
export function foldTerm(text: string): string {
  return text.normalize('NFKC').toLowerCase().replace(/\s+/g, ' ')
}

/** Returns the LIKE pattern (escaped by `\`) that finds a folded term anywhere. */
export function likePattern(term: string): string {
  return `%${term.replace(/[\\%_]/g, '\\$&')}%`
}

/** Returns the distinct trigrams of a folded term; none for a shorter one. */
export function trigrams(term: string): string[] {
  const characters = Array.from(term)
  return [...new Set(characters.slice(2).map((_, index) => characters.slice(index, index + 3).join('')))]
}
