import type { Finding } from '../load.ts'

/** Reports origins that no browser would ever send; `at` points to the list of them. */
export const originFindings = (origins: readonly string[], at: string): readonly Finding[] =>
  origins.flatMap((origin, index) =>
    isOrigin(origin)
      ? []
      : [{ pointer: `${at}/${index}`, message: 'is neither * nor an origin such as https://example.com' }],
  )

/**
 * Tells whether a text is an origin. Browser extensions have schemes of their own, whose origin the URL standard calls
 * opaque.
 */
function isOrigin(text: string): boolean {
  if (text === '*') return true
  const url = URL.parse(text)
  if (url === null || text.includes('*')) return false
  return url.origin === 'null' ? /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]+$/.test(text) : url.origin === text
}
