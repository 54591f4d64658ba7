/** Runs set-up alone, for all tests or those whose path contains one of the words: `node test/setup/run.ts cluster`. */
import { setUp } from './index.ts'
import { listNeeds } from './needs.ts'
import { testFiles } from './test-files.ts'

try {
  await setUp(listNeeds(testFiles(process.argv.slice(2))))
} catch (error) {
  console.error(`Set-up: ${(error as Error).message}`)
  process.exitCode = 1
}
