/**
 * Compares this checkout with another one and with bench/reference.json, and fails if a gateway costs more than the
 * reference. `node bench/pair/run.ts DIR [gateway|registry|render …] [--starts 9] [--set-reference NAME --reason
 * TEXT]`; DIR has its own node_modules.
 */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { compareGateways } from './gateway.ts'
import { compareRegistries } from './registry.ts'
import { compareRender } from './render.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    starts: { type: 'string', default: '9' },
    'set-reference': { type: 'string' },
    reason: { type: 'string' },
  },
})
const [before, ...words] = positionals
if (before === undefined || !existsSync(join(before, 'cli/main.ts'))) {
  console.error('usage: run.ts DIR [gateway|registry|render …], where DIR is another checkout of Portico')
  process.exit(2)
}
const by = values['set-reference']
if ((by === undefined) !== (values.reason === undefined)) {
  console.error('--set-reference NAME and --reason TEXT belong together')
  process.exit(2)
}
const command = `make pair BEFORE=DIR ARGS="${words.join(' ')}"`
const setting =
  by === undefined
    ? undefined
    : { by, command, reason: values.reason as string, date: new Date().toISOString().slice(0, 10) }
const parts = {
  gateway: (roots: { before: string; after: string }) => compareGateways(roots, Number(values.starts), setting),
  registry: compareRegistries,
  render: compareRender,
}
const unknown = words.filter((word) => !(word in parts))
if (unknown.length > 0) {
  console.error(`no such part: ${unknown.join(', ')}; there are ${Object.keys(parts).join(', ')}`)
  process.exit(2)
}
const roots = { before: resolve(before), after: resolve(import.meta.dirname, '../..') }
let isDearer = false
for (const [name, part] of Object.entries(parts))
  if (words.length === 0 || words.includes(name)) isDearer = (await part(roots)) === true || isDearer
process.exit(isDearer ? 1 : 0)
