/**
 * Runs command lines of the conformance suite one after another in one process: loading the suite costs more than most of
 * its scenarios. The suite is a program that reads its arguments when it is loaded, and ends with `process.exit`.
 * Usage: conformance-suite.ts <file of the suite> <command lines as JSON>
 */
import { pathToFileURL } from 'node:url'

const [node = '', , suite = '', lines = '[]'] = process.argv
const exit = process.exit
for (const [index, line] of (JSON.parse(lines) as string[][]).entries()) {
  const { promise, resolve } = Promise.withResolvers<void>()
  process.exit = (() => resolve()) as typeof process.exit
  process.argv = [node, suite, ...line]
  await import(`${pathToFileURL(suite).href}?${index}`)
  await promise
}
exit(0)
