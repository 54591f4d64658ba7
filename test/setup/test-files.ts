import { globSync } from 'node:fs'
import { join } from 'node:path'

/** Test files that run on a node. */
export const E2E_PATTERN = 'test/e2e/**/*.e2e.ts'

const root = join(import.meta.dirname, '../..')

/** Returns the test files, from the repository's root, whose path contains one of the words; all without words. */
export const testFiles = (words: readonly string[], pattern = 'test/**/*.test.ts'): string[] =>
  globSync(pattern, { cwd: root })
    .filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
    .sort()
