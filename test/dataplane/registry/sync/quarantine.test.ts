import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import {
  configOf,
  type List,
  labels,
  type RegistryFolder,
  registryFile,
  registryFolder,
  type Status,
  server,
} from '../../../support/registry/registry.ts'

const PROCESS = new URL('../../../support/registry/process.ts', import.meta.url).pathname
const POISON = new URL('../../../support/registry/poison.ts', import.meta.url).pathname

let folder: RegistryFolder
let child: ChildProcess
let url = ''
let adminUrl = ''
test.before.each(async () => {
  folder = await registryFolder()
})
test.after.each(async () => {
  child.kill('SIGKILL')
  await folder.remove()
})

const POISONED = (what: string) => registryFile([server('com.bad/a', '1.0.0', { title: what })])
const FILES = { good: 'good.json', bad: 'bad.json' }

async function start(): Promise<void> {
  const args = ['--disable-warning=ExperimentalWarning', '--import', POISON, PROCESS]
  child = spawn(process.execPath, [...args, folder.configFile, folder.stateDirectory], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [line] = await once(child.stdout as NodeJS.ReadableStream, 'data')
  ;({ url, adminUrl } = JSON.parse(String(line)))
}

async function stop(): Promise<void> {
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  await exit
}

const source = async (name: string) => {
  const { sources } = (await (await fetch(`${adminUrl}/status`)).json()) as Status
  return sources.find((one) => one.name === name)
}
const listed = async () => labels((await (await fetch(`${url}/registry/main/v0.1/servers`)).json()) as List).join()
const isAside = async () => (await source('bad'))?.error?.code === 'put_aside'
const publish = (name: string) =>
  fetch(`${url}/v1/entries`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ source: 'own', server: server(name) }),
  })
const config = () => {
  const { sources, ...rest } = configOf(FILES)
  return {
    ...rest,
    sources: [...sources, { name: 'own', managed: {} }],
    registries: [{ name: 'main', sources: ['good', 'bad', 'own'] }],
  }
}

for (const [what, poison] of [
  ['stands still', 'POISON-STALL'],
  ['runs out of memory', 'POISON-MEMORY'],
] as const)
  test(`a source with which the writing thread ${what} is put aside, after a restart too, and the rest goes on`, async () => {
    await folder.write('good.json', registryFile([server('com.good/a')]))
    await folder.write('bad.json', POISONED(poison))
    await folder.configure(config())
    await start()
    await eventually('the bad source is put aside', isAside, 90_000)
    const { error } = (await source('bad')) ?? {}
    assert.match(error?.message ?? '', /^the writing thread (stood still|ran out of memory)/)
    await eventually('the good source is synced', async () => (await listed()).includes('com.good/a'))
    assert.is((await publish('com.own/a')).status, 201)
    await stop()

    await start()
    await eventually('the bad source is still put aside', isAside, 90_000)
    assert.is((await publish('com.own/b')).status, 201)
    assert.is(await listed(), 'com.good/a@1.0.0,com.own/a@1.0.0,com.own/b@1.0.0')

    // Set otherwise it is tried at once.
    await folder.write('mended.json', registryFile([server('com.bad/a')]))
    const mended = config()
    const sources = mended.sources.map((one) =>
      one.name === 'bad' ? { ...one, file: { path: '../mended.json' } } : one,
    )
    await folder.configure({ ...mended, sources })
    await eventually('it is read', async () => (await listed()).startsWith('com.bad/a'))
  })

test('a source with which the process ends twice is put aside', async () => {
  await folder.write('good.json', registryFile([server('com.good/a')]))
  await folder.write('bad.json', POISONED('POISON-STALL'))
  await folder.configure(config())
  for (let kills = 0; kills < 2; kills++) {
    await start()
    await eventually('it is being read', () => existsSync(`${folder.stateDirectory}/syncing/bad`))
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  await start()
  await eventually('the bad source is put aside', isAside)
  assert.match((await source('bad'))?.error?.message ?? '', /^the process ended/)
  await eventually('the good source is synced', async () => (await listed()).includes('com.good/a'))
})

test('a stop ends in time while the writing thread stands still', async () => {
  await folder.write('good.json', registryFile([server('com.good/a')]))
  await folder.write('bad.json', registryFile([server('com.bad/a')]))
  await folder.configure(config())
  await start()
  await eventually('all is synced', async () => (await listed()).includes('com.bad/a'))
  await folder.write('bad.json', POISONED('POISON-STALL'))
  const mark = `${folder.stateDirectory}/syncing/bad`
  await eventually('it is being read', () => existsSync(mark))
  // Before anybody notices that the thread stands still, which is after 20 s.
  const killed = setTimeout(() => child.kill('SIGKILL'), 16_000)
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  const [code, signal] = await exit
  clearTimeout(killed)
  assert.equal([code, signal], [0, null])
})

test.run()
