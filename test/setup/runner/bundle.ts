/** What is made of this checkout for a run of many files, which pays for it, and removed at the end. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { withImports } from '../imports.ts'
import { MODULES_VARIABLE } from './loaded-modules.ts'

const ROOT = join(import.meta.dirname, '../../..')
/** Whoever imports this starts `portico` as a process. */
const STARTER = 'test/support/portico-program.ts'
/** Below that many files the sources are started sooner than a bundle is made. */
const LEAST_STARTERS = 5
/** Below that many files all modules are loaded sooner than others are written in their place. */
const LEAST_FILES = 10

/**
 * Bundles this checkout where enough of the files start it, and writes the modules that test files load in place of
 * others (modules.ts); the environment names both.
 */
export async function makeFor(files: readonly string[]): Promise<void> {
  const starters = files.filter((file) => withImports([file]).has(STARTER))
  await Promise.all([
    starters.length >= LEAST_STARTERS && make('build/bundle.ts', 'PORTICO_TEST_BUNDLE', 'portico.js'),
    files.length >= LEAST_FILES && make('test/setup/runner/modules.ts', MODULES_VARIABLE),
  ])
}

/** Has a script write a new folder, and names that, or a file in it, in the environment. */
async function make(script: string, variable: string, file = ''): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'portico-bundle-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  await promisify(execFile)(process.execPath, [join(ROOT, script), folder])
  process.env[variable] = join(folder, file)
}
