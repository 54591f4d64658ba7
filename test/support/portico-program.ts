import { execFileSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { dirname, join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Writes the bundle into a new folder: a copy of that of the run of the tests, or one that is made now. */
export function writeBundle(folder: string): void {
  const made = process.env['PORTICO_TEST_BUNDLE']
  if (made === undefined) execFileSync(process.execPath, ['build/bundle.ts', folder], { cwd: root, stdio: 'ignore' })
  else cpSync(dirname(made), folder, { recursive: true })
}

/**
 * The script of the `portico` command for processes that tests start: the bundle that the runner of the tests has made
 * (setup/runner/bundle.ts), which is what ships and starts in a fifth of the processor time, or the sources as they are.
 */
export const porticoScript = process.env['PORTICO_TEST_BUNDLE'] ?? join(root, 'cli', 'main.ts')

/** Program and arguments that run `portico`; what it is to do comes after them. */
export const porticoProgram: readonly [string, ...string[]] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--disable-warning=DEP0040',
  porticoScript,
]
