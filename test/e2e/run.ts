/**
 * `make e2e`: starts a whole Kubernetes node in a sandbox and runs test/e2e/*.e2e.ts on it, each file in its own process,
 * one after another. `node test/e2e/run.ts registry` runs files whose path contains the word; `--shell` opens a shell.
 */

import { join } from 'node:path'
import { setUp } from '../setup/index.ts'
import { listNeeds } from '../setup/needs.ts'
import { E2E_PATTERN, testFiles } from '../setup/test-files.ts'
import { checkMachine, runInSandbox } from './sandbox.ts'

try {
  const needs = listNeeds(['test/e2e/inside.ts', ...testFiles([], process.env['TEST_FILES'] ?? E2E_PATTERN)])
  checkMachine()
  // The sandbox has no network from which anything could be downloaded.
  await setUp(needs)
  process.exitCode = await runInSandbox(join(import.meta.dirname, 'inside.ts'), process.argv.slice(2))
} catch (error) {
  console.error(`e2e: ${error instanceof Error ? error.message : String(error)}`)
  console.log('0 passed, 1 failed')
  process.exitCode = 1
}
