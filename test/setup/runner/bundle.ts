/** Bundles that are made once for a run of many files and removed at its end. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { withImports } from '../imports.ts'
import { MODULES_VARIABLE } from './loaded-modules.ts'

const ROOT = join(import.meta.dirname, '../../..')
/** A file that imports this starts `portico` as a process. */
const STARTER = 'test/support/portico-program.ts'
/** For fewer files, starting from sources is faster than making a bundle. */
const LEAST_STARTERS = 5
/** For fewer files, loading all modules is faster than writing their replacements. */
const LEAST_FILES = 10

/**
 * Bundles this checkout if enough of the files start it, and writes the replacements of modules that test files load
 * (modules.ts). The environment names both.
 */
export async function makeFor(files: readonly string[]): Promise<void> {
  const starters = files.filter((file) => withImports([file]).has(STARTER))
  await Promise.all([
    starters.length >= LEAST_STARTERS && make('build/bundle.ts', 'PORTICO_TEST_BUNDLE', 'portico.js'),
    files.length >= LEAST_FILES && make('test/setup/runner/modules.ts', MODULES_VARIABLE),
  ])
}

/** Runs a script that writes a new folder, and puts the path of that, or of a file in it, in the environment. */
async function make(script: string, variable: string, file = ''): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'portico-bundle-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  await promisify(execFile)(process.execPath, [join(ROOT, script), folder])
  process.env[variable] = join(folder, file)
}
