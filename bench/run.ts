/**
 * Runs the benchmarks, one after another: those of the rooms that are named, or all. Usage: run.ts [room …]. `pair` is
 * apart: it needs another checkout to compare with.
 */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('.', import.meta.url))
const rooms = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== 'pair')
  .map(({ name }) => name)
const wanted = process.argv.slice(2)

for (const room of wanted.length === 0 ? rooms : wanted) {
  if (!rooms.includes(room)) {
    console.error(`no benchmark ${room}; there are ${rooms.join(', ')}`)
    process.exit(2)
  }
  console.log(`\n${room}`)
  const { status } = spawnSync(process.execPath, [`${folder}${room}/run.ts`], { stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}
