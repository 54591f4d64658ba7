import type { Finding } from '../load.ts'

export const originFindings = (origins: readonly string[], at: string): readonly Finding[] =>
  origins.flatMap((origin, index) =>
    isOrigin(origin)
      ? []
      : [{ pointer: `${at}/${index}`, message: 'is neither * nor an origin such as https://example.com' }],
  )

/** Tells whether a text is an origin. Those of browser extensions are opaque in the URL standard. */
function isOrigin(text: string): boolean {
  if (text === '*') return true
  const url = URL.parse(text)
  if (url === null || text.includes('*')) return false
  return url.origin === 'null' ? /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]+$/.test(text) : url.origin === text
}
