/** The bundle of this checkout for the processes that tests start: one is made for a run of many files, which it pays for. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { withImports } from '../imports.ts'

const ROOT = join(import.meta.dirname, '../../..')
/** Whoever imports this starts `portico` as a process. */
const STARTER = 'test/support/portico-program.ts'
/** Below that many files the sources are started sooner than a bundle is made. */
const LEAST_FILES = 5

/** Bundles this checkout where enough of the files start it, names the bundle in the environment, and removes it at the end. */
export async function bundleFor(files: readonly string[]): Promise<void> {
  if (files.filter((file) => withImports([file]).has(STARTER)).length < LEAST_FILES) return
  const folder = mkdtempSync(join(tmpdir(), 'portico-bundle-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  await promisify(execFile)(process.execPath, [join(ROOT, 'build/bundle.ts'), folder])
  process.env['PORTICO_TEST_BUNDLE'] = join(folder, 'portico.js')
}
