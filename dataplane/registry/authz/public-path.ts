/** The limit for decoding a path that was encoded several times. */
const MOST_ROUNDS = 4

/**
 * Tells whether a raw request path lies at or below a public path, segment by segment. The public part must be
 * unencoded. Behind it an encoded slash is allowed, since names have one. Anything that could lead upwards and any
 * encoded dot are refused.
 */
export function isPublicPath(path: string, publicPaths: readonly string[]): boolean {
  if (publicPaths.length === 0 || /%2e|%5c|\\|[?#]/i.test(path)) return false
  if (!publicPaths.some((open) => isAtOrBelow(path, open.replace(/\/$/, '')))) return false
  return !leadsUpwards(path)
}

function isAtOrBelow(path: string, open: string): boolean {
  return path === open || path.startsWith(`${open}/`)
}

function leadsUpwards(path: string): boolean {
  let text = path
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    if (text.split(/[/\\]/).some((segment) => segment === '.' || segment === '..')) return true
    if (!text.includes('%')) return false
    try {
      text = decodeURIComponent(text)
    } catch {
      // An undecodable path may mean anything.
      return true
    }
  }
  return true
}
