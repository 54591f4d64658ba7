import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { registryFile, server } from '../../../support/registry/registry.ts'
import {
  type AttackedRegistry,
  assertHolds,
  type OpenConnection,
  startAttackedRegistry,
} from '../../../support/registry/under-attack.ts'

/**
 * Attacks the memory of a registry, mostly in a separate process with a pod's limits; the long attacks are in `make
 * soak`.
 */

const MIB = 1024 * 1024

let registry: AttackedRegistry | undefined
test.after.each(() => registry?.close())

async function statuses(connections: readonly OpenConnection[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const status of await Promise.all(connections.map(({ status }) => status)))
    counts[String(status)] = (counts[String(status)] ?? 0) + 1
  return counts
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`

const filler = { filler: 'x'.repeat(0.9 * MIB) } as object
const fillerOf60KiB = { filler: 'x'.repeat(60 * 1024) } as object
const servers = (count: number, filler: object) =>
  registryFile(Array.from({ length: count }, (_, index) => server(`x/n${index + 100}`, '1.0.0', filler)))

for (const [what, text] of [
  ['of few large documents', servers(40, filler)],
  ['of many that are just not large', servers(140, fillerOf60KiB)],
] as const)
  test(`200 slow readers of the largest pages, ${what}, each of another one`, async () => {
    registry = await startAttackedRegistry(
      [{ name: 'house', file: { path: '../house.json' } } as { name: string }],
      (folder) => folder.write('house.json', text),
    )
    const { open, states } = registry
    await eventually('the source was read', async () => (await states()).every(({ state }) => state === 'ok'))
    const connections: OpenConnection[] = []
    // Another time makes it another query, with its own body.
    for (let index = 0; index < 200; index++) {
      const since = new Date(Date.UTC(2020, 0, 1, 0, 0, index)).toISOString()
      connections.push(await open(get(`/registry/main/v0.1/servers?limit=100&updated_since=${since}`)))
    }
    const counts = await statuses(connections)
    assert.ok((counts['200'] ?? 0) > 0, JSON.stringify(counts))
    assert.equal(
      Object.keys(counts).filter((status) => !['200', '429', '503'].includes(status)),
      [],
      JSON.stringify(counts),
    )
    assert.ok((counts['429'] ?? 0) + (counts['503'] ?? 0) > 0, JSON.stringify(counts))
    await assertHolds(registry, `200 slow readers ${what} ${JSON.stringify(counts)}`)
  })

test('500 bodies for the admin API that are sent slowly, then 2,000 connections that send half a head', async () => {
  registry = await startAttackedRegistry([])
  const { open } = registry
  const head = `POST /v1/entries HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${MIB}\r\n\r\n`
  const piece = `${head}{"server":{"x":"${'y'.repeat(0.9 * MIB)}`
  const connections: OpenConnection[] = []
  for (let index = 0; index < 500; index++) connections.push(await open(piece))
  // Some are refused; the others wait for the rest of their bodies.
  const refused = await Promise.race(connections.map(({ status }) => status))
  assert.ok(refused === 429 || refused === 503, String(refused))
  await eventually('the sent bytes have arrived', async () =>
    connections.every(({ socket }) => socket.writableLength === 0 || socket.destroyed),
  )
  const peak = registry.peakMib()
  for (const { socket } of connections) socket.destroy()
  await assertHolds(registry, `500 slow bodies (${peak.toFixed(0)} MiB while they were there)`)

  const half = `GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n${`x-${'y'.repeat(1000)}: ${'z'.repeat(1000)}\r\n`.repeat(28)}`
  const halves: OpenConnection[] = []
  for (let index = 0; index < 2_000; index++) halves.push(await open(half))
  await eventually('the heads were sent', async () =>
    halves.every(({ socket }) => socket.writableLength === 0 || socket.destroyed),
  )
  await assertHolds(registry, '2,000 halves of heads')
})

test('20 sources at once, with documents of nearly a MiB', async () => {
  const text = registryFile(Array.from({ length: 10 }, (_, index) => server(`x/n${index}`, '1.0.0', filler)))
  const sources = Array.from({ length: 20 }, (_, index) => ({ name: `s${index}`, file: { path: '../house.json' } }))
  registry = await startAttackedRegistry(sources, (folder) => folder.write('house.json', text))
  const { states } = registry
  await eventually('all were read', async () => (await states()).every(({ state }) => state === 'ok'), 240_000)
  await assertHolds(registry, '20 sources')
})

test('four sources of 20,000 tiny entries', async () => {
  const text = registryFile(Array.from({ length: 20_000 }, (_, index) => server(`x/n${index}`)))
  const sources = ['a', 'b', 'c', 'd'].map((name) => ({ name, file: { path: '../house.json' } }))
  registry = await startAttackedRegistry(sources, (folder) => folder.write('house.json', text))
  const { states } = registry
  await eventually('all were read', async () => (await states()).every(({ state }) => state === 'ok'), 240_000)
  await assertHolds(registry, 'four sources of tiny entries')
})

test.run()
