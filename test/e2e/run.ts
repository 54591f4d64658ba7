/**
 * `make e2e`: a whole Kubernetes node in a sandbox, and test/e2e/*.e2e.ts on it, one process a file, one after the
 * other. `node test/e2e/run.ts registry` for files whose path holds the word; `--shell` for a shell instead of tests.
 */

import { join } from 'node:path'
import { setUp } from '../setup/index.ts'
import { needsOf } from '../setup/needs.ts'
import { E2E_PATTERN, testFiles } from '../setup/test-files.ts'
import { checkMachine, runInSandbox } from './sandbox.ts'

try {
  const needs = needsOf(['test/e2e/inside.ts', ...testFiles([], process.env['TEST_FILES'] ?? E2E_PATTERN)])
  checkMachine()
  // In the sandbox there is no way out by which anything could be fetched.
  await setUp(needs)
  process.exitCode = await runInSandbox(join(import.meta.dirname, 'inside.ts'), process.argv.slice(2))
} catch (error) {
  console.error(`e2e: ${error instanceof Error ? error.message : String(error)}`)
  console.log('0 passed, 1 failed')
  process.exitCode = 1
}
