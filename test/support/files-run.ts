import { Session } from 'node:inspector/promises'

/** Runs before it is counted: what is loaded, compiled or remembered once is no part of the way. */
const WARM = 5
/** What also runs by chance, as a timer's, does not run in each of so many. */
const COUNTED = 5

/**
 * Source files of the project with a function that runs each time that `run` does, by V8's precise coverage; sorted.
 * `root` is the project's folder, as a URL that ends in a slash.
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
