/** Checks the durations and results of a store's statements: exact counts, by Prometheus and by OTLP. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { observeStatements, openDatabase } from '../../../dataplane/storage/sql.ts'
import { Telemetry } from '../../../dataplane/telemetry/telemetry.ts'
import { recordLog } from '../../support/kept-log.ts'
import { startPostgres, type TestPostgres } from '../../support/network/postgres.ts'
import { buildConfig, registryFolder, runRegistry, server } from '../../support/registry/registry.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { parseScrape, type Scraped, scrape } from '../../support/telemetry/prometheus-text.ts'

interface Tables {
  readonly thing: { readonly id: number; readonly secret: string }
}

const METRIC = 'db_client_operation_duration_seconds'

let directory: string
let postgres: TestPostgres
let receiver: OtlpReceiver

test.before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'portico-statements-'))
  postgres = await startPostgres()
})
test.after(async () => {
  await postgres.close()
  await rm(directory, { recursive: true })
})
test.before.each(async () => {
  receiver = await startOtlpReceiver()
})
test.after.each(() => receiver.close())

const telemetrySettings = () => ({
  prometheus: { enabled: true },
  openTelemetry: { enabled: true, endpoint: receiver.url, insecure: true, metrics: { enabled: true } },
})

async function startTelemetry(): Promise<Telemetry> {
  const telemetry = new Telemetry({ role: 'registry', version: '1', log: recordLog().log, metricsEveryMs: 60 })
  await telemetry.apply({ telemetry: telemetrySettings(), directory, workload: 'it' })
  return telemetry
}

/** Returns each series as `system OPERATION error count`. */
const counts = ({ samples }: Scraped) =>
  samples
    .filter(({ name }) => name === `${METRIC}_count`)
    .map(({ labels, value }) =>
      [labels['db_system_name'], labels['db_operation_name'], labels['error_type'] ?? 'ok', value].join(' '),
    )
    .sort()

const sums = ({ samples }: Scraped) =>
  samples.filter(({ name }) => name === `${METRIC}_sum`).reduce((sum, { value }) => sum + value, 0)

/** Runs twelve statements, of which two fail; each has a value that nobody may see. */
async function runStatements(database: Kysely<Tables>): Promise<void> {
  await database.schema
    .createTable('thing')
    .addColumn('id', 'integer', (it) => it.primaryKey())
    .addColumn('secret', 'text')
    .execute()
  for (const id of [1, 2]) await database.insertInto('thing').values({ id, secret: 'hunter2' }).execute()
  for (let index = 0; index < 3; index++)
    await database.selectFrom('thing').selectAll().where('secret', '=', 'hunter2').execute()
  await sql`with few as (select 1) select 'hunter2' from few`.execute(database)
  await database
    .transaction()
    .execute(async (transaction) => {
      await transaction.updateTable('thing').set({ secret: 'hunter2' }).execute()
      await transaction.insertInto('thing').values({ id: 1, secret: 'hunter2' }).execute()
    })
    .then(
      () => assert.unreachable(),
      () => undefined,
    )
  await sql`select hunter2 from thing`.execute(database).then(
    () => assert.unreachable(),
    () => undefined,
  )
}

for (const { system, conflict, open } of [
  {
    system: 'sqlite',
    conflict: '_OTHER',
    open: async () => ({ dialect: 'sqlite', file: join(directory, 'it.sqlite') }) as const,
  },
  {
    system: 'postgresql',
    conflict: 'conflict',
    open: async () => {
      const url = await postgres.database('statements')
      return { dialect: 'postgres', postgres: { url, sslMode: 'disable' }, connections: 1 } as const
    },
  },
])
  test(`${system}: each statement is counted once, by kind and outcome, without its values`, async () => {
    const telemetry = await startTelemetry()
    const database = openDatabase<Tables>({ ...(await open()), observe: observeStatements(telemetry.observe) })
    try {
      const since = performance.now()
      await runStatements(database)
      const elapsed = (performance.now() - since) / 1000
      const text = parseScrape(telemetry.prometheus('text/plain')?.text ?? '')
      assert.equal(
        counts(text),
        [
          `${system} BEGIN ok 1`,
          `${system} INSERT ${conflict} 1`,
          `${system} INSERT ok 2`,
          `${system} ROLLBACK ok 1`,
          `${system} SELECT _OTHER 1`,
          `${system} SELECT ok 3`,
          `${system} UPDATE ok 1`,
          `${system} WITH ok 1`,
          `${system} other ok 1`,
        ].sort(),
      )
      assert.ok(sums(text) > 0 && sums(text) <= elapsed, `${sums(text)} of ${elapsed} s`)
      const points = await receiver.counted('db.client.operation.duration', 12)
      const sent = points.map(({ attributes, count }) =>
        [attributes['db.system.name'], attributes['db.operation.name'], attributes['error.type'] ?? 'ok', count].join(
          ' ',
        ),
      )
      assert.equal(sent.sort(), counts(text))
      assert.not.match(text.text, /hunter2|thing/)
    } finally {
      await database.destroy()
      await telemetry.close()
    }
  })

test('a database that is down is counted as a failed connection', async () => {
  const telemetry = await startTelemetry()
  const url = 'postgres://nobody:hunter2@127.0.0.1:1/none'
  const observe = observeStatements(telemetry.observe)
  const place = { url, sslMode: 'disable' } as const
  const database = openDatabase<Tables>({ dialect: 'postgres', postgres: place, connections: 1, observe })
  try {
    for (let index = 0; index < 2; index++)
      await database
        .selectFrom('thing')
        .selectAll()
        .execute()
        .then(
          () => assert.unreachable(),
          () => undefined,
        )
    const { text = '' } = telemetry.prometheus('text/plain') ?? {}
    assert.equal(counts(parseScrape(text)), ['postgresql CONNECT unavailable 2'])
    assert.not.match(text, /hunter2/)
  } finally {
    await database.destroy()
    await telemetry.close()
  }
})

test('statements of the writing thread are counted when its job ends', async () => {
  const folder = await registryFolder()
  const config = buildConfig({}, { telemetry: telemetrySettings(), auth: { mode: 'anonymous' } })
  await folder.configure({
    ...config,
    sources: [{ name: 'own', managed: {} }],
    registries: [{ name: 'main', sources: ['own'] }],
  })
  const registry = await runRegistry(folder)
  try {
    await registry.ready()
    const count = async (operation: string) => {
      const { samples } = await scrape(registry.adminUrl)
      return samples
        .filter(({ name, labels }) => name === `${METRIC}_count` && labels['db_operation_name'] === operation)
        .reduce((sum, { value }) => sum + value, 0)
    }
    const before = { begin: await count('BEGIN'), commit: await count('COMMIT'), select: await count('SELECT') }
    for (let index = 0; index < 100; index++) {
      const response = await fetch(`${registry.url}/v1/entries`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ server: server(`io.example/${index}`) }),
      })
      assert.is(response.status, 201, await response.text())
    }
    // One transaction for each, since each waits for the one before.
    assert.equal([await count('BEGIN'), await count('COMMIT')], [before.begin + 100, before.commit + 100])
    assert.ok((await count('SELECT')) > before.select)
  } finally {
    await registry.close()
  }
})

test.run()
