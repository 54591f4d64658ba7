const EVERY_MS = 60_000

interface Purgeable {
  purgeStale(): unknown
}

/**
 * Has a cache drop what has ended, and not only when it is asked for it or needs the room: what it keeps are secrets of
 * users. It ends with the cache.
 */
export function purgeRegularly(cache: Purgeable, everyMs = EVERY_MS): void {
  const held = new WeakRef(cache)
  const timer = setInterval(() => {
    const still = held.deref()
    if (still === undefined) clearInterval(timer)
    else still.purgeStale()
  }, everyMs)
  timer.unref()
}
