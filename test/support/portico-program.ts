import { join } from 'node:path'

/**
 * The script of the `portico` command for processes that tests start: the bundle that the runner of the tests has made
 * (setup/runner/bundle.ts), which is what ships and starts in a fifth of the processor time, or the sources as they are.
 */
export const porticoScript =
  process.env['PORTICO_TEST_BUNDLE'] ?? join(import.meta.dirname, '..', '..', 'cli', 'main.ts')

/** Program and arguments that run `portico`; what it is to do comes after them. */
export const porticoProgram: readonly [string, ...string[]] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--disable-warning=DEP0040',
  porticoScript,
]
