const EVERY_MS = 60_000

interface Purgeable {
  purgeStale(): unknown
}

/** Drops expired entries of a cache at intervals: they are secrets of users. It ends with the cache. */
export function purgeRegularly(cache: Purgeable, everyMs = EVERY_MS): void {
  const held = new WeakRef(cache)
  const timer = setInterval(() => {
    const still = held.deref()
    if (still === undefined) clearInterval(timer)
    else still.purgeStale()
  }, everyMs)
  timer.unref()
}
