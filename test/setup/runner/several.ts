/**
 * Runs test files one after another in this process, and writes a line behind the output of each. Ends at the first
 * failure, so that it is shown at once.
 *
 * Usage: several.ts FILE…, with deferred.ts loaded before everything else
 */
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { exec } from 'uvu'
import { readOwnSeconds } from './cpu.ts'
import { afterHooks } from './hooks.ts'
import { formatEnd } from './several-output.ts'

const { UVU_QUEUE: queue } = globalThis as unknown as { readonly UVU_QUEUE: unknown[][] }

const files = process.argv.slice(2)
for (const file of files) {
  // A name of a file or null, then its suites.
  queue.splice(0, queue.length, [null])
  await import(pathToFileURL(resolve(file)).href)
  await exec()
  const isLast = file === files.at(-1) || process.exitCode !== 0 || afterHooks.haveFailed
  const line = formatEnd(readOwnSeconds() ?? 0, isLast)
  process.stdout.write(line)
  process.stderr.write(line)
  if (isLast) break
}
