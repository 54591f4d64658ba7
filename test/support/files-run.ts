import { Session } from 'node:inspector/promises'

/** Runs before the measured ones: work that is done once, such as loading and compiling, does not count. */
const WARM = 5
/** Measured runs. A function that runs by chance, as a timer's does, is not in all of them. */
const COUNTED = 5

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
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    let common: Set<string> | undefined
    for (let count = 0; count < COUNTED; count++) {
      await session.post('Profiler.takePreciseCoverage')
      await run()
      const { result } = await session.post('Profiler.takePreciseCoverage')
      const ran = new Set(
        result
          .filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
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
