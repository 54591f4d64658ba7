/**
 * Runs the benchmarks of the named rooms, or all. Usage: run.ts [room …] [arguments for them: NAME=VALUE, --option
 * VALUE]. `compare` (most of an hour) and `pair` (needs another checkout) run only if they are named.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('.', import.meta.url))
const rooms = readdirSync(folder).filter((name) => name !== 'pair' && existsSync(`${folder}${name}/run.ts`))
const args = process.argv.slice(2)
const firstOption = args.findIndex((arg) => arg.includes('=') || arg.startsWith('--'))
const wanted = firstOption === -1 ? args : args.slice(0, firstOption)

for (const room of wanted.length === 0 ? rooms.filter((name) => name !== 'compare') : wanted) {
  if (!rooms.includes(room)) {
    console.error(`no benchmark ${room}; there are ${rooms.join(', ')}`)
    process.exit(2)
  }
  console.log(`\n${room}`)
  const { status } = spawnSync(
    process.execPath,
    [`${folder}${room}/run.ts`, ...(firstOption === -1 ? [] : args.slice(firstOption))],
    { stdio: 'inherit' },
  )
  if (status !== 0) process.exit(1)
}
