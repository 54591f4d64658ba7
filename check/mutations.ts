/**
 * Makes small mistakes in copies of this checkout and an older one, and reports which tests detect them: a change that
 * makes tests faster must not make them blind.
 */
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { listNeeds } from '../test/setup/needs.ts'
import { createNumbers } from '../test/support/random.ts'
import { Checkout, type Judgement } from './mutations/checkout.ts'
import { applyMutant, KINDS, type Mutant, makeMutants, mutantIn, parses } from './mutations/mutants.ts'

const HELP = `Usage: node check/mutations.ts SEED [options] [PATH...]

Makes mutations of the sources below these paths (all of operator, dataplane, crds and cli without any), chosen by SEED, a
number: ${KINDS.join(', ')}.
For each it runs test files that reach the mutated file by imports or by a process that they start, the closest first,
until one fails that passes without the mutation.

  --before DIR   another checkout, with its node_modules: the same mutations are judged there, too
  --count N      mutations (12)
  --most N       test files that judge one mutation (8); it says how many others there are

Exits with 1 when a mutation is caught in DIR and not here.`

const options = {
  before: { type: 'string' },
  count: { type: 'string', default: '12' },
  most: { type: 'string', default: '8' },
  help: { type: 'boolean', default: false },
} as const
const { values, positionals } = parseArgs({ options, allowPositionals: true })
const [seed = '', ...paths] = positionals
if (values.help || !/^\d+$/.test(seed)) {
  console.log(HELP)
  process.exit(values.help ? 0 : 2)
}

const present = new Map<string, boolean>()

/** Tells whether this machine has everything that a test needs: nothing is set up for a mutation. */
function runTest(test: string): boolean {
  return listNeeds([test]).every((need) => {
    const known = present.get(need.name) ?? need.present()
    present.set(need.name, known)
    return known
  })
}

const checkouts: Checkout[] = []
process.on('exit', () => {
  for (const checkout of checkouts) checkout[Symbol.dispose]()
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1))
const open = (folder: string): Checkout => {
  const checkout = new Checkout(folder, runTest)
  checkouts.push(checkout)
  return checkout
}

const now = open(join(import.meta.dirname, '..'))
const before = values.before === undefined ? undefined : open(values.before)

const files = globSync('{operator,dataplane,crds,cli}/**/*.ts', { cwd: join(import.meta.dirname, '..') })
  .filter((file) => paths.length === 0 || paths.some((path) => file === path || file.startsWith(`${path}/`)))
  .sort()
const sources = new Map(files.map((file) => [file, now.text(file) ?? '']))

/** Tells whether both checkouts have a place for a mutation, and the result parses. */
function isOfUse(mutant: Mutant): boolean {
  const source = sources.get(mutant.file) as string
  if (!parses(applyMutant(source, mutant))) return false
  if (before === undefined) return true
  const other = before.text(mutant.file)
  return other !== undefined && mutantIn(other, source, mutant) !== undefined
}

/** Chooses mutants of each kind in turn, each mutant once. */
function chooseMutants(most: number): Mutant[] {
  const number = createNumbers(Number(seed))
  const all = files.flatMap((file) => makeMutants(file, sources.get(file) as string))
  const pools = KINDS.map((kind) => all.filter((mutant) => mutant.kind === kind))
  const mutants: Mutant[] = []
  while (mutants.length < most && pools.some((pool) => pool.length > 0)) {
    const pool = pools[mutants.length % pools.length] as Mutant[]
    const [mutant] = pool.length > 0 ? pool.splice(number(pool.length), 1) : pools.flatMap((one) => one.splice(0, 1))
    if (mutant && isOfUse(mutant)) mutants.push(mutant)
  }
  return mutants
}

function formatJudgement({ by, ran, left, broken }: Judgement): string {
  const more = [
    left > 0 ? `${left} others that reach it did not run` : '',
    broken.length > 0 ? `fails without it, too: ${broken.join(', ')}` : '',
  ].filter((text) => text !== '')
  const verdict = by === undefined ? `NOT caught by ${ran.length} test files` : `caught by ${by}`
  return [verdict, ...(by === undefined || broken.length > 0 ? more : [])].join('; ')
}

const lost: string[] = []
let caught = 0
const mutants = chooseMutants(Number(values.count))
for (const [index, mutant] of mutants.entries()) {
  const source = sources.get(mutant.file) as string
  const place = `${mutant.file}:${mutant.line}`
  const readLine = (text: string) => (text.split('\n')[mutant.line - 1] ?? '').trim()
  console.log(`${index + 1}. ${place}, ${mutant.kind}`)
  console.log(`   - ${readLine(source)}\n   + ${readLine(applyMutant(source, mutant))}`)
  const most = Number(values.most)
  const [here, there] = await Promise.all([now.judge(source, mutant, most), before?.judge(source, mutant, most)])
  if (there) console.log(`   before: ${formatJudgement(there)}`)
  if (here) console.log(`   ${before ? 'now:    ' : ''}${formatJudgement(here)}`)
  if (here?.by !== undefined) caught += 1
  else if (there?.by !== undefined) lost.push(`${place} was caught by ${there.by}`)
}
console.log(`${mutants.length} mutations, ${caught} caught`)
for (const line of lost) console.log(`caught before and not now: ${line}`)
process.exit(lost.length === 0 ? 0 : 1)
