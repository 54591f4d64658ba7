/**
 * What this checkout costs beside another one, such as a worktree of the commit before: the same work in turn, in the
 * same minutes, as ratios. `node bench/pair/run.ts DIR [gateway|registry|render …]`; DIR has its own node_modules.
 */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { compareGateways } from './gateway.ts'
import { compareRegistries } from './registry.ts'
import { compareRender } from './render.ts'

const [given, ...words] = process.argv.slice(2)
if (given === undefined || !existsSync(join(given, 'bench/gateway/gateway-process.ts'))) {
  console.error('usage: run.ts DIR [gateway|registry|render …], where DIR is another checkout of Portico')
  process.exit(2)
}
const parts = { gateway: compareGateways, registry: compareRegistries, render: compareRender }
const unknown = words.filter((word) => !(word in parts))
if (unknown.length > 0) {
  console.error(`no such part: ${unknown.join(', ')}; there are ${Object.keys(parts).join(', ')}`)
  process.exit(2)
}
const roots = { before: resolve(given), after: resolve(import.meta.dirname, '../..') }
for (const [name, part] of Object.entries(parts)) if (words.length === 0 || words.includes(name)) await part(roots)
