/** The test files that can tell a mutant: those that reach its file by imports, or by a process that they start. */
import { globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { importReader } from '../../test/setup/imports.ts'

/** Modules by imports, workers by URL. */
const REACHED = /['"](\.[^'"\s]+\.ts)['"]/g

/** A process of ours is started by its file's name, or by the command. */
function started(text: string, file: string): readonly string[] {
  const beside = [...text.matchAll(/['"]([\w-]+\.ts)['"]/g)].map(([, name]) => join(dirname(file), name as string))
  return /\bbin\/portico\b|\bcli\/main\.ts\b/.test(text) ? [...beside, 'cli/main.ts'] : beside
}

/** Gives for a file the test files of a checkout that reach it, the closest first. */
export function readJudges(root: string): (file: string) => readonly string[] {
  const reach = importReader(root, REACHED, started)
  const reached = globSync('test/**/*.test.ts', { cwd: root })
    .sort()
    .map((test) => ({ test, order: [...reach([test])] }))
  return (file) =>
    reached
      .map(({ test, order }) => ({ test, shared: sharedFolders(test, file), distance: order.indexOf(file) }))
      .filter(({ distance }) => distance >= 0)
      .sort((one, other) => other.shared - one.shared || one.distance - other.distance)
      .map(({ test }) => test)
}

/** Leading parts of the paths that are the same: test/operator/render/pod.test.ts is the mirror of operator/render/pod.ts. */
function sharedFolders(test: string, file: string): number {
  const parts = test
    .replace(/^test\//, '')
    .replace(/\.test\.ts$/, '')
    .split('/')
  const own = file.replace(/\.ts$/, '').split('/')
  const differing = own.findIndex((part, index) => part !== parts[index])
  return differing < 0 ? own.length : differing
}
