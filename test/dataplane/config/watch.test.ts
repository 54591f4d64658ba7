import { writeFileSync } from 'node:fs'
import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Type from 'typebox'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ConfigError, type Finding, type Loaded } from '../../../dataplane/config/load.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import { type WatchOptions, watchConfig } from '../../../dataplane/config/watch.ts'
import { eventually } from '../../support/eventually.ts'
import { mountVolume } from '../../support/mounted-volume.ts'

const schema = Type.Object({ value: Type.Integer() }, { additionalProperties: false })
interface Config {
  value: number
}

/** Writes this close together are seen as one. */
const CLOSE_MS = 20

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** Follows a file. Tests write it in one step, since a writer that pauses may be read halfway. */
const follow = async (file: string, options: Partial<WatchOptions<Config>> = {}) => {
  const values: number[] = []
  const refusals: (readonly Finding[])[] = []
  const stop = new AbortController()
  cleanups.push(() => stop.abort())
  const first = await watchConfig(file, {
    read: configParser(schema),
    onConfig: ({ config }: Loaded<Config>) => void values.push(config.value),
    onRefused: (findings) => void refusals.push(findings),
    signal: stop.signal,
    ...options,
  })
  return { first, values, refusals, stop: () => stop.abort() }
}
const waitForValue = (values: readonly number[], value: number) =>
  eventually(`${value} is in force`, () => values.at(-1) === value)

/** Returns the number of kernel watches of this process (proc(5), fdinfo). */
const inotifyWatches = async (): Promise<number> => {
  const infos = await Promise.all(
    (await readdir('/proc/self/fdinfo')).map((fd) => readFile(`/proc/self/fdinfo/${fd}`, 'utf8').catch(() => '')),
  )
  return infos.join('').split('inotify wd:').length - 1
}

const folder = async () => {
  const path = await mkdtemp(join(tmpdir(), 'portico-watch-'))
  cleanups.push(() => rm(path, { recursive: true, force: true }))
  return path
}

test('a volume whose ..data link is swapped', async () => {
  const volume = await mountVolume({ 'c.yaml': 'value: 1' })
  cleanups.push(volume.remove)
  const { first, values } = await follow(join(volume.directory, 'c.yaml'))
  assert.is(first.config.value, 1)
  for (let value = 2; value < 6; value++) {
    await volume.update({ 'c.yaml': `value: ${value}` })
    await waitForValue(values, value)
  }
  assert.equal(values, [2, 3, 4, 5])
})

test('a file that is replaced by rename, as standalone does', async () => {
  const file = join(await folder(), 'c.yaml')
  await writeFile(file, 'value: 1')
  const { values } = await follow(file)
  for (const value of [2, 3]) {
    await writeFile(`${file}.tmp`, `value: ${value}`)
    await rename(`${file}.tmp`, file)
    await waitForValue(values, value)
  }
})

test('a file that is written in place, in pieces', async () => {
  const file = join(await folder(), 'c.yaml')
  await writeFile(file, 'value: 1')
  const { values, refusals } = await follow(file)
  let [value, tookMs] = [1, 0]
  // Writes that are far apart may be read separately; if the machine has delayed the second one, the test repeats.
  do {
    refusals.length = 0
    const began = performance.now()
    await writeFile(file, 'value')
    await appendFile(file, `: ${++value}`)
    tookMs = performance.now() - began
    await waitForValue(values, value)
  } while (tookMs > CLOSE_MS)
  assert.equal(refusals, [])
})

test('a file that is deleted and written again', async () => {
  const file = join(await folder(), 'c.yaml')
  await writeFile(file, 'value: 1')
  const { values, refusals } = await follow(file)
  await unlink(file)
  await eventually('the loss is reported', () => refusals.length === 1)
  assert.is(refusals[0]?.[0]?.message, 'the file does not exist')
  writeFileSync(file, 'value: 2')
  await waitForValue(values, 2)
  assert.is(refusals.length, 1)
})

test('changes behind a link to another folder are found by polling', async () => {
  const [here, elsewhere] = [await folder(), await folder()]
  await writeFile(join(elsewhere, 'real.yaml'), 'value: 1')
  await symlink(join(elsewhere, 'real.yaml'), join(here, 'c.yaml'))
  const { values } = await follow(join(here, 'c.yaml'))
  writeFileSync(join(elsewhere, 'real.yaml'), 'value: 2')
  await waitForValue(values, 2)
})

test('a folder that is replaced as a whole', async () => {
  const root = await folder()
  await mkdir(join(root, 'config'))
  const file = join(root, 'config', 'c.yaml')
  await writeFile(file, 'value: 1')
  const { values } = await follow(file)
  await rename(join(root, 'config'), join(root, 'old'))
  await mkdir(join(root, 'config'))
  writeFileSync(file, 'value: 2')
  await waitForValue(values, 2)
})

test('an invalid file is reported once with all findings, the old one stays in force, and recovery is reported', async () => {
  const volume = await mountVolume({ 'c.yaml': 'value: 1' })
  cleanups.push(volume.remove)
  const { values, refusals } = await follow(join(volume.directory, 'c.yaml'))
  await volume.update({ 'c.yaml': 'value: x\nother: 1' })
  await eventually('the refusal is reported', () => refusals.length > 0)
  // The same bytes again: a kubelet rewrites whole volumes when another key has changed.
  const before = await readlink(join(volume.directory, '..data'))
  await volume.update({ 'c.yaml': 'value: x\nother: 1', 'd.yaml': 'x' })
  assert.is.not(await readlink(join(volume.directory, '..data')), before)
  await volume.update({ 'c.yaml': 'value: 1' })
  await waitForValue(values, 1)
  assert.is(refusals.length, 1)
  assert.equal(
    refusals[0]?.map(({ pointer, line }) => [pointer, line]),
    [
      ['/other', 2],
      ['/value', 1],
    ],
  )
})

test('the same content again is no change', async () => {
  const file = join(await folder(), 'c.yaml')
  await writeFile(file, 'value: 1')
  const { values } = await follow(file)
  writeFileSync(file, 'value: 1')
  await writeFile(`${file}.tmp`, 'value: 1')
  await rename(`${file}.tmp`, file)
  writeFileSync(file, 'value: 2')
  await waitForValue(values, 2)
  assert.equal(values, [2])
})

test('a change during an apply is applied after it', async () => {
  const file = join(await folder(), 'c.yaml')
  await writeFile(file, 'value: 1')
  const values: number[] = []
  let running = 0
  let release = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  await follow(file, {
    async onConfig({ config }) {
      assert.is(++running, 1, 'calls don’t overlap')
      values.push(config.value)
      if (config.value === 2) await gate
      running--
    },
  })
  writeFileSync(file, 'value: 2')
  await waitForValue(values, 2)
  writeFileSync(file, 'value: 3')
  // Nothing may happen now, so there is no condition to wait for, only time.
  await new Promise((resolve) => setTimeout(resolve, 600))
  assert.equal(values, [2])
  release()
  await waitForValue(values, 3)
})

test('a configuration that can’t be applied is refused', async () => {
  const file = join(await folder(), 'c.yaml')
  await writeFile(file, 'value: 1')
  const { refusals } = await follow(file, {
    onConfig({ config }) {
      if (config.value === 2) throw new Error('no way')
      throw new ConfigError([{ pointer: '/value', message: 'won’t do' }])
    },
  })
  writeFileSync(file, 'value: 2')
  await eventually('it is reported', () => refusals.length === 1)
  assert.match(refusals[0]?.[0]?.message ?? '', /no way/)
  writeFileSync(file, 'value: 3')
  await eventually('it is reported', () => refusals.length === 2)
  assert.is(refusals[1]?.[0]?.pointer, '/value')
})

test('the first load throws, and a watch that was ended leaves nothing open', async () => {
  const file = join(await folder(), 'c.yaml')
  await writeFile(file, 'value: x')
  try {
    await follow(file)
    assert.unreachable()
  } catch (error) {
    assert.instance(error, ConfigError)
  }
  writeFileSync(file, 'value: 1')
  const before = await inotifyWatches()
  const { stop, values } = await follow(file)
  await eventually('the folder is watched', async () => (await inotifyWatches()) === before + 1)
  stop()
  await eventually('it no longer is', async () => (await inotifyWatches()) === before)
  writeFileSync(file, 'value: 2')
  assert.equal(values, [])
})

test.run()
