/**
 * Rewrites every generated file that is committed; with `--check` it writes nothing and fails with a line for each file
 * that is not what it should be.
 */
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crdFiles, DEFAULT_GROUP } from '../crds/generate.ts'

const root = new URL('..', import.meta.url).pathname

/** Generated files by their path below the root. */
export function generatedFiles(): ReadonlyMap<string, string> {
  return new Map([...crdFiles(DEFAULT_GROUP)].map(([name, content]) => [join('crds', name), content]))
}

/** Files that lie where generated ones lie and are none: a kind that is gone. */
const orphans = (generated: ReadonlyMap<string, string>) =>
  globSync('crds/*.yaml', { cwd: root }).filter((path) => !generated.has(path))

const committed = (path: string) => {
  try {
    return readFileSync(join(root, path), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

if (import.meta.main) {
  const generated = generatedFiles()
  const stale = [...generated].filter(([path, content]) => committed(path) !== content)
  const extra = orphans(generated)
  if (process.argv.includes('--check')) {
    for (const [path] of stale) console.error(`${path}: not up to date; run \`npm run generate\``)
    for (const path of extra) console.error(`${path}: belongs to no kind; run \`npm run generate\``)
    process.exitCode = stale.length + extra.length === 0 ? 0 : 1
  } else {
    for (const [path, content] of stale) writeFileSync(join(root, path), content)
    for (const path of extra) rmSync(join(root, path))
    for (const [path] of stale) console.log(`wrote ${path}`)
  }
}
