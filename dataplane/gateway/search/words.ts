/** What is said in many words is said in the first of them. */
const MOST_WORDS = 32
const LONGEST_WORD = 64
const WORD = /[\p{L}\p{N}\p{M}]+/gu
/** Where a word begins inside a name: getWeather, HTTPServer. */
const INNER = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu

/** A name and the words in it: an index knows nothing of capitals. */
export function spelledOut(name: string): string {
  const apart = name.replace(INNER, ' ')
  return apart === name ? name : `${name} ${apart}`
}

/**
 * A query of FTS5 (https://sqlite.org/fts5.html, section 3) for what has any of the words in a text; undefined where it
 * has none. Whatever the text is, nothing of it but words is in the query, and each of them in quotes.
 */
export function wordQuery(text: string): string | undefined {
  const words = new Set<string>()
  for (const [word] of spelledOut(text).matchAll(WORD)) {
    words.add(`"${word.slice(0, LONGEST_WORD)}"`)
    if (words.size === MOST_WORDS) break
  }
  return words.size === 0 ? undefined : [...words].join(' OR ')
}
