import { execFileSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { dirname, join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Writes the bundle into a new folder: a copy of the test run's bundle, or a new one. */
export function writeBundle(folder: string): void {
  const created = process.env['PORTICO_TEST_BUNDLE']
  if (created === undefined) execFileSync(process.execPath, ['build/bundle.ts', folder], { cwd: root, stdio: 'ignore' })
  else cpSync(dirname(created), folder, { recursive: true })
}

/**
 * The script of the `portico` command for processes that tests start: the runner's bundle (setup/runner/bundle.ts), which
 * ships and starts in a fifth of the processor time, or the sources.
 */
export const porticoScript = process.env['PORTICO_TEST_BUNDLE'] ?? join(root, 'cli', 'main.ts')

/** The program and arguments that run `portico`; its own arguments come after them. */
export const porticoProgram: readonly [string, ...string[]] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--disable-warning=DEP0040',
  porticoScript,
]
