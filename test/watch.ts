/**
 * `make watch ARGS=…`: runs the tests whose path has one of the words, and runs them again when a source or a test has
 * changed. A change while they run ends that run; what else changes within a moment belongs to the same change.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { watch } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const words = process.argv.slice(2)
const FOLDERS = [
  'bench',
  'bin',
  'build',
  'check',
  'cli',
  'console',
  'crds',
  'dataplane',
  'docs',
  'operator',
  'samples',
  'test',
]
/** An editor that saves writes more than once. */
const SETTLE_MS = 200

if (words.length === 0) {
  console.error('Which tests? make watch ARGS="gateway/call" runs the files whose path has one of these words.')
  process.exit(2)
}

let running: ChildProcess | undefined
let timer: NodeJS.Timeout | undefined

function run(): void {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'run.ts'), ...words], { stdio: 'inherit' })
  running = child
  child.on('close', () => {
    if (running !== child) return
    running = undefined
    console.log('waiting for a change (Ctrl+C ends)')
  })
}

function rerun(name: string): void {
  clearTimeout(timer)
  timer = setTimeout(() => {
    console.log(`\n${name} has changed`)
    const before = running
    running = undefined
    if (before === undefined) run()
    else before.once('close', run).kill('SIGTERM')
  }, SETTLE_MS)
}

for (const folder of FOLDERS)
  watch(join(root, folder), { recursive: true }, (_event, name) => {
    // Files that tests write have other names.
    if (name !== null && /\.(ts|md|yaml)$/.test(name)) rerun(join(folder, name))
  })
run()
