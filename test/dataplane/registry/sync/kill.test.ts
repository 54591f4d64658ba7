import { once } from 'node:events'
import { statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import {
  buildConfig,
  type List,
  type RegistryFolder,
  registryFile,
  registryFolder,
  type Status,
  server,
} from '../../../support/registry/registry.ts'
import { type RegistryProcess, startRegistryProcess } from '../../../support/registry/registry-process.ts'

const NAMES = 600
/** So long that a transaction exceeds SQLite's memory and is written to the disk while it runs. */
const TEXT = 'x'.repeat(10_000)
/** Returns a state of the catalog: every entry names its state, and each state has names of its own too. */
const generation = (number: number) =>
  registryFile(
    Array.from({ length: NAMES }, (_, index) =>
      server(index % 2 === 0 ? `all/n${index}` : `only/g${number}-n${index}`, '1.0.0', {
        title: `generation ${number}`,
        description: TEXT,
      }),
    ),
  )

async function kill({ child }: RegistryProcess): Promise<void> {
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

async function source({ adminUrl }: RegistryProcess) {
  return ((await (await fetch(`${adminUrl}/status`)).json()) as Status).sources[0]
}

/** Reads everything that is served, by whole pages, and returns its state. */
async function servedGeneration({ url }: RegistryProcess): Promise<string> {
  const titles = new Set<string | undefined>()
  let count = 0
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const response = await fetch(`${url}/registry/main/v0.1/servers?limit=100${cursor && `&cursor=${cursor}`}`)
    const { servers, metadata } = (await response.json()) as List
    count += servers.length
    for (const { server: document } of servers) titles.add(document.title)
    cursor = metadata.nextCursor
  }
  assert.is(count, NAMES)
  assert.is(titles.size, 1, [...titles].join())
  return [...titles].join()
}

test('a process that is killed in the middle of a sync leaves the state before or after, whole', async () => {
  const folder = await registryFolder()
  const log = join(folder.stateDirectory, 'catalog.sqlite-wal')
  const logBytes = () => statSync(log, { throwIfNoEntry: false })?.size ?? 0
  await folder.write('own.json', generation(1))
  await folder.configure(buildConfig({ own: 'own.json' }))
  const first = await startRegistryProcess(folder)
  await eventually('the first sync has ended', async () => (await source(first))?.state === 'ok')
  assert.is(await servedGeneration(first), 'generation 1')
  await kill(first)

  let inTheMiddle = 0
  let stored = 1
  let newest = 1
  // A busy machine may miss some of them.
  for (let next = 2; next <= 5 || inTheMiddle < 2; next++) {
    assert.ok(next < 40, `${inTheMiddle} of ${next - 2} kills met a sync`)
    await folder.write('own.json', generation(next))
    const before = logBytes()
    const running = await startRegistryProcess(folder)
    // Earlier or later in the transaction: when this much of it is on the disk.
    await eventually('the sync writes', async () => logBytes() > before + (2 + (next % 4)) * 500_000)
    if ((await source(running))?.state === 'running') inTheMiddle++
    await kill(running)
    // After a second crash in a row the source would be put aside for a minute; quarantine.test.ts tests that.
    await rm(join(folder.stateDirectory, 'aside'), { recursive: true, force: true })

    const state = onlyGeneration(folder)
    assert.ok(state === stored || state === next, `generation ${state} after ${stored} and ${next}`)
    stored = state
    newest = next
  }

  const last = await startRegistryProcess(folder)
  await eventually('the last sync has ended', async () => (await source(last))?.state === 'ok')
  assert.is(await servedGeneration(last), `generation ${newest}`)
  await kill(last)
  await folder.remove()
})

/** Returns the state in a store without its process, which must be a single one, complete and undamaged. */
function onlyGeneration({ stateDirectory }: RegistryFolder): number {
  const database = new DatabaseSync(join(stateDirectory, 'catalog.sqlite'))
  try {
    assert.equal({ ...database.prepare('pragma integrity_check').get() }, { integrity_check: 'ok' })
    assert.equal(database.prepare('pragma foreign_key_check').all(), [])
    const living = database.prepare(
      'select title, count(*) as count from entry_version where gone_at is null group by title',
    )
    const rows = living.all()
    assert.is(rows.length, 1, JSON.stringify(rows))
    assert.is(rows[0]?.['count'], NAMES)
    const listed = database.prepare('select count(*) as count from listing where rank = 0').get()
    assert.is(listed?.['count'], NAMES)
    return Number(String(rows[0]?.['title']).replace('generation ', ''))
  } finally {
    database.close()
  }
}

test.run()
