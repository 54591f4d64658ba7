/** Decoding again and again what was encoded again and again ends here. */
const MOST_ROUNDS = 4

/**
 * Whether a raw request path lies at or below one of the public paths, segment by segment. The public part must be
 * written plainly: nothing is decoded before it is compared. Behind it an encoded slash is allowed, since names have
 * one (`com.example%2Fweather`), but nothing that leads upwards by any reading, and no encoded dot.
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
      // What can't be decoded may be anything.
      return true
    }
  }
  return true
}
