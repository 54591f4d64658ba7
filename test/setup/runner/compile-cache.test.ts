import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const MODULE = new URL('./compile-cache.ts', import.meta.url).href
const folder = mkdtempSync(join(tmpdir(), 'portico-compile-cache-'))
const compiled = join(folder, 'portico/compiled')

test.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))

function fill(files: number): void {
  mkdirSync(join(compiled, 'v24'), { recursive: true })
  for (let file = 0; file < files; file += 1) writeFileSync(join(compiled, 'v24', `${file}`), '')
}

/** Writes a file, unless its folder is emptied just then: Node does without what it can't write. */
function writeOne(): void {
  try {
    fill(1)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

/** Starts a process that looks at the cache as a test run does, and returns its exit code and errors. */
async function look(): Promise<string> {
  const { NODE_COMPILE_CACHE: _, ...env } = process.env
  const script = `const { compileCache } = await import('${MODULE}'); console.log(compileCache(1_000).NODE_COMPILE_CACHE)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...env, XDG_CACHE_HOME: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (output += piece))
  const [code] = await once(child, 'close')
  return `${code} ${output}`
}

test('a folder of compiled modules that has grown is emptied, also by several test runs at once', async () => {
  fill(1_000)
  assert.is(await look(), `0 ${compiled}\n`)
  assert.is(readdirSync(join(compiled, 'v24')).length, 1_000)
  fill(20_000)
  // Beside them a process writes, as Node does at the end of each process.
  const writing = setInterval(writeOne, 1)
  const looks = await Promise.all([look(), look(), look(), look()])
  clearInterval(writing)
  assert.equal(looks, Array(4).fill(`0 ${compiled}\n`))
  assert.ok(!existsSync(compiled) || readdirSync(join(compiled, 'v24')).length < 1_000)
  assert.equal(readdirSync(join(folder, 'portico/unfinished')), [])
})

test.run()
