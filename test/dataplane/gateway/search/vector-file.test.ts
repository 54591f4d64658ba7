/** Tests vectors on disk: what a gateway reads after a restart, and which files it accepts. */

import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { VectorFile } from '../../../../dataplane/gateway/search/embedding/vectors.ts'
import { type TemporaryFolder, temporaryFolder } from '../../../support/folder.ts'
import { startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { type EmbeddingService, startEmbeddingService } from '../../../support/network/embedding-service.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

const MIB = 1024 * 1024
const TOOLS = ['getWeather', 'send_mail', 'search'].map((name) => JSON.stringify({ name, inputSchema: {} }))

let backend: RawServer
let service: EmbeddingService
let folder: TemporaryFolder

test.before(async () => {
  backend = await startRawServer({ era: 'modern', tools: TOOLS, call: () => '{}' })
})
test.before.each(async () => {
  service = await startEmbeddingService([['weather', 'umbrella']])
  folder = temporaryFolder()
})
test.after.each(async () => {
  folder[Symbol.dispose]()
  await service.close()
})
test.after(() => backend.close())

/**
 * Starts a gateway for one search; returns the texts, besides the query, that it sent to the service. All share one
 * folder.
 */
async function startAndSearch(model = 'm') {
  const optimizer: TestConfig['optimizer'] = { embeddingService: service.url, embeddingModel: model }
  const gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }], optimizer }, async (directory) =>
    symlinkSync(folder.path, join(directory, 'state')),
  )
  try {
    await gateway.listed()
    service.seen.length = 0
    const params = { name: 'find_tool', arguments: { query: 'umbrella' } }
    const { json } = await postModern(gateway.url, 'tools/call', params)
    assert.is(json.result.structuredContent.tools[0].name, 'b_getWeather')
    const { kept } = unwrap((await gateway.status()).toolSearch?.embeddings)
    return { embedded: service.texts.length - 1, kept }
  } finally {
    await gateway.close()
  }
}
const vectorsFile = () => join(folder.path, 'embeddings.sqlite')

test('a restarted gateway computes vectors only for a model without stored ones', async () => {
  assert.equal(await startAndSearch(), { embedded: 3, kept: 'disk' })
  assert.equal(await startAndSearch(), { embedded: 0, kept: 'disk' })
  assert.equal(await startAndSearch('other'), { embedded: 3, kept: 'disk' })
  assert.equal(await startAndSearch(), { embedded: 0, kept: 'disk' })
  service.more = 3
  assert.equal(await startAndSearch(), { embedded: 3, kept: 'disk' }, 'its vectors are longer now')
  assert.not.match(readFileSync(vectorsFile(), 'latin1'), /umbrella|send/, 'no texts')
})

test('a broken file is replaced', async () => {
  await startAndSearch()
  const whole = readFileSync(vectorsFile())
  const other = (script: string) => {
    const { status, stderr } = spawnSync(process.execPath, [
      '-e',
      `new (require('node:sqlite').DatabaseSync)(${JSON.stringify(vectorsFile())}).exec(${JSON.stringify(script)})`,
    ])
    assert.is(status, 0, `${stderr}`)
  }
  const breaks: Readonly<Record<string, () => void>> = {
    'no database': () => writeFileSync(vectorsFile(), 'rubbish'.repeat(1000)),
    'cut off': () => writeFileSync(vectorsFile(), whole.subarray(0, 5000)),
    'overwritten from its second page on': () =>
      writeFileSync(vectorsFile(), Buffer.concat([whole.subarray(0, 4096), Buffer.alloc(whole.length - 4096, 0xa5)])),
    'of somebody else': () => other('drop table vector; create table vector (x)'),
    'with vectors that are none': () => other("update vector set numbers = x'0000c07f0000c07f0000'"),
    'with numbers that are none': () => other("update vector set numbers = x'0000c07f0000c07f'"),
    'with texts': () => other("update vector set numbers = 'abcdefgh'"),
  }
  for (const [what, makeSo] of Object.entries(breaks)) {
    makeSo()
    assert.is((await startAndSearch()).embedded, 3, what)
    assert.equal(await startAndSearch(), { embedded: 0, kept: 'disk' }, what)
  }
})

test('if the file can’t be written, vectors are kept in memory', async () => {
  mkdirSync(vectorsFile())
  assert.equal(await startAndSearch(), { embedded: 3, kept: 'memory' })
  assert.equal(await startAndSearch(), { embedded: 3, kept: 'memory' })
})

test('a file stays within its limit and keeps the latest entries', () => {
  const { log, lines } = recordLog()
  const file = new VectorFile(folder.path, log, 2 * MIB)
  const unit = Float32Array.from({ length: 1024 }, () => 1 / 32)
  for (let batch = 0; batch < 100; batch++) {
    file.add(Array.from({ length: 32 }, (_, place) => [`${batch}-${place}`, unit] as const))
    assert.equal(file.get(`${batch}-31`), unit, `${batch}`)
  }
  assert.is(file.get('0-0'), undefined)
  assert.is(file.isOpen, true)
  assert.equal(lines, [])
  file.close()
  assert.ok(statSync(vectorsFile()).size <= 2 * MIB)
})

test('two processes can use one file', () => {
  const { log } = recordLog()
  const unit = Float32Array.of(1)
  const [one, other] = [new VectorFile(folder.path, log), new VectorFile(folder.path, log)]
  for (let key = 0; key < 50; key++) (key % 2 === 0 ? one : other).add([[`${key}`, unit]])
  for (let key = 0; key < 50; key++) assert.equal((key % 2 === 0 ? other : one).get(`${key}`), unit)
  one.close()
  other.close()
})

test.run()
