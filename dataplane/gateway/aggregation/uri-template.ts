/** Tells whether a URI may come of a URI template (RFC 6570). */
export interface UriPattern {
  /** How many characters the template fixes: of several that match, the one that fixes most is meant. */
  readonly fixed: number
  matches(uri: string): boolean
}

/**
 * The pattern of a template. Each expression stands for any text, since which characters it may give depends on its
 * operator and on values; the text between must be there in order. Takes time linear in the URI for each expression.
 */
export function uriPattern(template: string): UriPattern {
  const literals = template.split(/\{[^{}]*\}/)
  const [first = '', ...rest] = literals
  const last = rest.pop()
  return {
    fixed: template.length - (template.match(/\{[^{}]*\}/g)?.join('').length ?? 0),
    matches(uri) {
      if (last === undefined) return uri === first
      if (!uri.startsWith(first) || !uri.endsWith(last)) return false
      const end = uri.length - last.length
      let at = first.length
      for (const literal of rest) {
        const found = uri.indexOf(literal, at)
        if (found === -1) return false
        at = found + literal.length
      }
      return at <= end
    },
  }
}
