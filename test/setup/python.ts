/** Python environments, one for each set of packages that tests use together. */
import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cacheFolder, hashFiles, workFolder } from './cache.ts'
import { run } from './program.ts'

/** Sets of packages, each a file of exact versions in test/support/python. */
export type PythonSet = 'sdk1' | 'sdk2' | 'schemathesis'

const requirements = (set: PythonSet) => join(import.meta.dirname, '../support/python', `${set}.txt`)

const buildFolderPath = (set: PythonSet) =>
  join(cacheFolder(), 'python', `${set}-${hashFiles([requirements(set)], 16)}`)

export const hasPythonWith = (set: PythonSet): boolean => existsSync(buildFolderPath(set))

/** Returns the path of the Python with these packages. Throws if set-up has not run. */
export function pythonWith(set: PythonSet): string {
  if (!hasPythonWith(set))
    throw new Error(`no ${buildFolderPath(set)}: \`make test\` makes it, and so does \`node test/setup/run.ts\``)
  return join(buildFolderPath(set), 'bin', 'python')
}

/** Creates the environment atomically. Only the holder of the lock may call it. */
export async function makePythonWith(set: PythonSet, progress: (state: string) => void): Promise<void> {
  const draft = join(workFolder(), 'environment')
  await run({ program: 'python3', args: ['-m', 'venv', draft] })
  const install = ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-deps', '-r', requirements(set)]
  let packages = 0
  await run({ program: join(draft, 'bin', 'python'), args: install }, (line) => {
    if (line.startsWith('Collecting')) progress(`${(packages += 1)} packages fetched`)
  })
  mkdirSync(dirname(buildFolderPath(set)), { recursive: true })
  try {
    renameSync(draft, buildFolderPath(set))
  } catch (error) {
    // An older checkout creates the environment without the lock.
    if (!hasPythonWith(set)) throw error
  }
}
