import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import {
  buildConfig,
  type List,
  labels,
  type RegistryFolder,
  registryFile,
  registryFolder,
  type Status,
  server,
} from '../../../support/registry/registry.ts'
import { sourceFlags } from '../../../support/source-flags.ts'

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

/** The thread is ended after twenty of these without a heartbeat, which it sends every 500 ms. */
const CHECK_MS = 150

/** Starts a registry; `checkMs` replaces the interval of one second for checks of the thread. */
async function start(options: { readonly checkMs?: number } = {}): Promise<void> {
  const args = [...sourceFlags, '--import', POISON, PROCESS]
  child = spawn(process.execPath, [...args, folder.configFile, folder.stateDirectory, JSON.stringify(options)], {
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
const listLabels = async () => labels((await (await fetch(`${url}/registry/main/v0.1/servers`)).json()) as List).join()
const isAside = async () => (await source('bad'))?.error?.code === 'put_aside'
const publish = (name: string) =>
  fetch(`${url}/v1/entries`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ source: 'own', server: server(name) }),
  })
const config = () => {
  const { sources, ...rest } = buildConfig(FILES)
  return {
    ...rest,
    sources: [...sources, { name: 'own', managed: {} }],
    registries: [{ name: 'main', sources: ['good', 'bad', 'own'] }],
  }
}

/** Waits until the bad source is put aside for that reason, while the others continue. */
async function waitUntilPutAside(reason: RegExp): Promise<void> {
  await eventually('the bad source is quarantined', isAside, 90_000)
  assert.match((await source('bad'))?.error?.message ?? '', reason)
  await eventually('the good source is synced', async () => (await listLabels()).includes('com.good/a'))
}

/** Makes the bad source read another file: a source with new settings is tried at once. */
async function replaceFile(file: string, text: string): Promise<void> {
  await folder.write(file, text)
  const { sources, ...rest } = config()
  const otherwise = sources.map((one) => (one.name === 'bad' ? { ...one, file: { path: `../${file}` } } : one))
  await folder.configure({ ...rest, sources: otherwise })
}

test('a source that stalls the writing thread or exhausts its memory is put aside, also after a restart, and the others are synced', async () => {
  await folder.write('good.json', registryFile([server('com.good/a')]))
  await folder.write('bad.json', POISONED('POISON-STALL'))
  await folder.configure(config())
  await start({ checkMs: CHECK_MS })
  await waitUntilPutAside(/^the writing thread did not respond/)
  assert.is((await publish('com.own/a')).status, 201)
  await stop()

  // In effect unchecked: with little memory left, garbage collection takes long on a slow machine.
  await start({ checkMs: 60_000 })
  await eventually('the bad source is still quarantined', isAside, 90_000)
  assert.is((await publish('com.own/b')).status, 201)
  assert.is(await listLabels(), 'com.good/a@1.0.0,com.own/a@1.0.0,com.own/b@1.0.0')
  await replaceFile('mended.json', registryFile([server('com.bad/a')]))
  await eventually('it is read', async () => (await listLabels()).startsWith('com.bad/a'))
  // The status follows a moment after the entries.
  await eventually('it is no longer quarantined', async () => !(await isAside()))

  await folder.write('mended.json', POISONED('POISON-MEMORY'))
  await waitUntilPutAside(/^the writing thread ran out of memory/)
  assert.is((await publish('com.own/c')).status, 201)
  assert.is(await listLabels(), 'com.bad/a@1.0.0,com.good/a@1.0.0,com.own/a@1.0.0,com.own/b@1.0.0,com.own/c@1.0.0')
})

test('a source that ends the process twice is put aside; a shutdown is in time while the writing thread stalls', async () => {
  await folder.write('good.json', registryFile([server('com.good/a')]))
  await folder.write('bad.json', POISONED('POISON-WAIT'))
  await folder.configure(config())
  const waitUntilRead = (name: string) =>
    eventually('it is being read', () => existsSync(`${folder.stateDirectory}/syncing/${name}`))
  for (let kills = 0; kills < 2; kills++) {
    await start()
    await waitUntilRead('bad')
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  await start()
  await waitUntilPutAside(/^the process ended/)
  // With new settings it is read at once, and not after a minute.
  await replaceFile('mended.json', registryFile([server('com.bad/a')]))
  await eventually('it is read', async () => (await listLabels()).startsWith('com.bad/a'), 40_000)

  await folder.write('good.json', POISONED('POISON-WAIT'))
  await waitUntilRead('good')
  // Before the blocked thread is noticed, which takes 20 s.
  const killed = setTimeout(() => child.kill('SIGKILL'), 16_000)
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  const [code, signal] = await exit
  clearTimeout(killed)
  assert.equal([code, signal], [0, null])
})

test.run()
