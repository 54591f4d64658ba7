import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { startUpstream, type Upstream } from '../../../support/network/upstream.ts'
import { type RegistryFolder, registryFolder, type Status, server } from '../../../support/registry/registry.ts'
import { startRegistryProcess } from '../../../support/registry/registry-process.ts'

const MIB = 1024 * 1024
/** The limit that the operator renders for a registry's container. */
const LIMIT_MIB = 512

let folder: RegistryFolder
let upstream: Upstream
let child: ChildProcess
test.before.each(async () => {
  folder = await registryFolder()
})
test.after.each(async () => {
  child.kill('SIGKILL')
  await upstream.close()
  await folder.remove()
})

const FILLER = Buffer.alloc(0.95 * MIB, 'x')

/** Yields a page of the API with a hundred documents of nearly 1 MiB each. */
function* page(url: URL): Generator<string | Buffer> {
  const source = url.pathname.split('/')[1]
  for (let index = 0; index < 100; index++) {
    const entry = JSON.stringify({ server: server(`${source}/n${index}`) })
    yield `${index === 0 ? '{"servers":[' : ','}${entry.slice(0, -2)},"filler":"`
    yield FILLER
    yield '"}}'
  }
  yield '],"metadata":{}}'
}

function answer(url: URL, response: ServerResponse): void {
  if (!url.pathname.endsWith('/servers')) return void response.writeHead(404).end()
  response.writeHead(200, { 'content-type': 'application/json' })
  Readable.from(page(url)).pipe(response)
}

const peakMib = () => Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024

test('four API sources with pages of 95 MB, beside reads and publications, stay within the rendered memory limit', async () => {
  upstream = await startUpstream(answer)
  const names = ['one', 'two', 'three', 'four']
  await folder.configure({
    sources: [
      { name: 'own', managed: {} },
      ...names.map((name) => ({
        name,
        api: { endpoint: `${upstream.url}/${name}`, timeout: '200s' },
        // Each is read once, however long the others take.
        syncPolicy: { interval: '1h' },
      })),
    ],
    registries: [{ name: 'main', sources: ['own', ...names] }],
    auth: { mode: 'anonymous' },
  })
  const registry = await startRegistryProcess(folder)
  child = registry.child
  const { url, adminUrl } = registry

  let published = 0
  const states = async () => ((await (await fetch(`${adminUrl}/status`)).json()) as Status).sources
  const haveEnded = async () => {
    const read = await fetch(`${url}/registry/main/v0.1/servers?limit=1`)
    await read.arrayBuffer()
    assert.is(read.status, 200)
    const publication = await fetch(`${url}/v1/entries`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ source: 'own', server: server(`own/n${published++}`) }),
    })
    assert.is(publication.status, 201)
    return (await states()).every(({ tried }) => tried)
  }
  await eventually('all sources were read', haveEnded, 240_000)
  assert.equal(
    (await states()).map(({ state, servers }) => [state, servers]),
    names.map(() => ['ok', 100]),
  )
  assert.ok(peakMib() < LIMIT_MIB, `at most ${Math.round(peakMib())} MiB`)
})

test.run()
