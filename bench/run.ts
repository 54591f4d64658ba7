/**
 * Runs the benchmarks, one after another: those of the rooms that are named, or all. Usage: run.ts [room …] [what they are
 * given: NAME=VALUE, --option VALUE]. `compare` is run where it is named: it takes most of an hour. `pair` is apart: it needs
 * another checkout to compare with.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('.', import.meta.url))
const rooms = readdirSync(folder).filter((name) => name !== 'pair' && existsSync(`${folder}${name}/run.ts`))
const args = process.argv.slice(2)
const given = args.findIndex((arg) => arg.includes('=') || arg.startsWith('--'))
const wanted = given === -1 ? args : args.slice(0, given)

for (const room of wanted.length === 0 ? rooms.filter((name) => name !== 'compare') : wanted) {
  if (!rooms.includes(room)) {
    console.error(`no benchmark ${room}; there are ${rooms.join(', ')}`)
    process.exit(2)
  }
  console.log(`\n${room}`)
  const { status } = spawnSync(
    process.execPath,
    [`${folder}${room}/run.ts`, ...(given === -1 ? [] : args.slice(given))],
    { stdio: 'inherit' },
  )
  if (status !== 0) process.exit(1)
}
