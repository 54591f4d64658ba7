import { Session } from 'node:inspector/promises'

/** Runs before the measured ones: work that is done once, such as loading and compiling, does not count. */
const WARM = 5
/** Measurements, and the runs in each. A function that a timer calls runs less often than these, or not in each. */
const MEASUREMENTS = 5
const RUNS = 10

/**
 * Returns the source files of the project in which a function runs each time that `run` does, by V8's precise coverage,
 * sorted. `root` is the URL of the project's folder and ends in a slash.
 */
export async function filesRun(root: URL, run: () => unknown): Promise<readonly string[]> {
  const session = new Session()
  session.connect()
  try {
    for (let count = 0; count < WARM; count++) await run()
    await session.post('Profiler.enable')
    let common: Set<string> | undefined
    for (let measured = 0; measured < MEASUREMENTS; measured++) {
      // Counts begin at zero. Taking them would do the same, but reading them takes long on a busy machine: timers fire.
      await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
      for (let count = 0; count < RUNS; count++) await run()
      const { result } = await session.post('Profiler.takePreciseCoverage')
      await session.post('Profiler.stopPreciseCoverage')
      const ran = new Set(
        result
          .filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) >= RUNS))
          .flatMap(({ url }) => (url.startsWith(root.href) ? url.slice(root.href.length) : []))
          .filter((file) => /^(crds|dataplane|operator)\//.test(file)),
      )
      common = common === undefined ? ran : new Set([...common].filter((file) => ran.has(file)))
    }
    return [...(common ?? [])].sort()
  } finally {
    session.disconnect()
  }
}
