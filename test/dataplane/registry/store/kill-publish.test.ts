import { once } from 'node:events'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startPostgres } from '../../../support/network/postgres.ts'
import { type List, labels, registryFolder, server } from '../../../support/registry/registry.ts'
import { startRegistryProcess } from '../../../support/registry/registry-process.ts'

const WRITERS = 8
const ACKNOWLEDGED = 60

/** Publishes version after version until the server is gone; reports each acknowledged one. */
async function write(url: string, writer: number, acknowledged: (label: string) => void): Promise<void> {
  for (let index = 0; ; index++) {
    const name = `com.example/w${writer}-${index}`
    const $schema = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'
    const body = JSON.stringify({ server: { $schema, ...server(name) } })
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${url}/v1/entries`, { method: 'POST', body, headers }).catch(() => undefined)
    if (response === undefined) return
    assert.is(response.status, 201, await response.text())
    acknowledged(`${name}@1.0.0`)
  }
}

async function everything(url: string): Promise<Set<string>> {
  const found = new Set<string>()
  for (let cursor: string | undefined; ; ) {
    const response = await fetch(`${url}/registry/main/v0.1/servers?limit=100${cursor ? `&cursor=${cursor}` : ''}`)
    const list = (await response.json()) as List
    for (const label of labels(list)) found.add(label)
    cursor = list.metadata.nextCursor
    if (cursor === undefined) return found
  }
}

async function checkSurvival(database: object): Promise<void> {
  const folder = await registryFolder()
  await folder.configure({
    sources: [{ name: 'own', managed: {} }],
    registries: [{ name: 'main', sources: ['own'] }],
    auth: { mode: 'anonymous' },
    ...database,
  })
  const first = await startRegistryProcess(folder)
  const acknowledged = new Set<string>()
  const exit = once(first.child, 'exit')
  await Promise.all(
    Array.from({ length: WRITERS }, (_, writer) =>
      write(first.url, writer, (label) => {
        acknowledged.add(label)
        if (acknowledged.size === ACKNOWLEDGED) first.child.kill('SIGKILL')
      }),
    ),
  )
  await exit
  assert.ok(acknowledged.size >= ACKNOWLEDGED)

  const second = await startRegistryProcess(folder)
  const stored = await everything(second.url)
  assert.equal(
    [...acknowledged].filter((label) => !stored.has(label)),
    [],
  )
  const end = once(second.child, 'exit')
  second.child.kill('SIGKILL')
  await end
  await folder.remove()
}

test('SQLite: acknowledged writes survive kill -9', () => checkSurvival({}))

test('PostgreSQL: acknowledged writes survive kill -9', async () => {
  const postgres = await startPostgres()
  try {
    await checkSurvival({ database: { url: await postgres.database('killed'), sslMode: 'disable' } })
  } finally {
    await postgres.close()
  }
})

test.run()
