/** Folds a text so that case and width don't matter when it is looked for or looked in. */
export function fold(text: string): string {
  return text.normalize('NFKC').toLowerCase()
}

/** What a search looks in: each field in its own line, so that no match spans two of them. */
export function searchText(...fields: readonly (string | null)[]): string {
  return fields
    .filter((field) => field !== null)
    .map((field) => fold(field).replace(/\s+/g, ' '))
    .join('\n')
}

/** The LIKE pattern (escaped by `\`) that finds a term anywhere. */
export function likePattern(term: string): string {
  return `%${fold(term)
    .replace(/\s+/g, ' ')
    .replace(/[\\%_]/g, '\\$&')}%`
}
