import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { floatingPromises } from '../../check/floating-promises.ts'

const root = new URL('../..', import.meta.url).pathname

/** Statements, and whether a promise floats in each of them. */
const statements: readonly (readonly [source: string, floats: boolean])[] = [
  ['work()', true],
  ['void work()', true],
  ['(work())', true],
  ['maybe()', true],
  ['bus?.send()', true],
  ['yes && work()', true],
  ['yes ? work() : await work()', true],
  ['work().then(() => {})', true],
  ['work().finally(() => {})', true],
  ['work().catch(() => {}).finally(() => {})', true],
  ['Promise.all([work()])', true],
  ['new Promise((_, reject) => reject(1))', true],
  ['Promise.reject(1)', true],
  ['[1].map(async () => {})', true],
  ['(async () => {})()', true],
  ['wait(1)', true],
  ['once(process, "x")', true],
  ['setTimeout(work, 1)', true],
  ['setTimeout(() => work(), 1)', true],
  ['setInterval(async () => {}, 1)', true],
  ['setTimeout(() => void work(), 1)', true],
  ['process.on("x", async () => {})', true],
  ['[1].forEach(async () => {})', true],
  ['told = async () => {}', true],
  ['const object: { told(): void } = { told: () => work() }; object.told()', true],
  ['await work()', false],
  ['const kept = work(); await kept', false],
  ['work().catch(() => {})', false],
  ['work().then(() => {}, () => {})', false],
  ['yes && work().catch(() => {})', false],
  ['bus?.send().catch(() => {})', false],
  ['setTimeout(() => { work().catch(() => {}) }, 1)', false],
  ['console.log(await work())', false],
  ['process.on("x", () => {})', false],
  ['await Promise.all([1].map(async () => {}))', false],
  ['[1, 2].map(String)', false],
]

const HEAD = `import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
async function work(): Promise<void> {}
declare function maybe(): void | Promise<void>
declare const bus: { send(): Promise<boolean> } | undefined
declare const yes: boolean
declare let told: () => void
export const used = [once, wait, work, maybe, bus, yes, told]
`

/** Returns the findings in a project with these files. */
async function listFindings(files: Readonly<Record<string, string>>): Promise<string[]> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-floating-'))
  try {
    const config = {
      extends: join(root, 'tsconfig.json'),
      compilerOptions: { typeRoots: [join(root, 'node_modules/@types')] },
      include: ['*.ts'],
    }
    await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config))
    for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
    return floatingPromises(join(directory, 'tsconfig.json'))
  } finally {
    await rm(directory, { recursive: true })
  }
}

test('a recursive type is judged the same in any order', async () => {
  const types = `type One = readonly Two[] | readonly Holds[] | readonly Three[]
type Two = readonly One[] | string
type Three = readonly One[] | number
type Holds = readonly Promise<void>[]
declare const one: One
declare const two: Two
declare const three: Three
`
  for (const names of [
    ['one', 'two', 'three'],
    ['three', 'two', 'one'],
    ['two', 'one', 'three'],
  ]) {
    const found = await listFindings({ 'a.ts': `${types}${names.join('\n')}\nexport {}\n` })
    assert.equal(
      found.map((line) => line.split(':')[1]),
      ['8', '9', '10'],
      names.join(),
    )
  }
})

test('a promise that nobody waits for is found, in whatever form it stands', async () => {
  const files = statements.map(([source], index) => [`s${index}.ts`, `${HEAD};${source}\n`] as const)
  const found = await listFindings(Object.fromEntries(files))
  const line = HEAD.split('\n').length
  for (const [index, [source, floats]] of statements.entries())
    assert.is(
      found.some((finding) => finding.startsWith(`s${index}.ts:${line}: `)),
      floats,
      source,
    )
})

test.run()
