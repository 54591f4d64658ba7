import type { Kysely } from 'kysely'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { openForWriting } from '../../../../dataplane/registry/store/database/open.ts'
import type { RegistryTables } from '../../../../dataplane/registry/store/database/schema.ts'
import { underLease } from '../../../../dataplane/registry/sync/lease.ts'
import { eventually } from '../../../support/eventually.ts'
import { startPostgres, type TestPostgres } from '../../../support/network/postgres.ts'

let postgres: TestPostgres
let database: Kysely<RegistryTables>

test.before(async () => {
  postgres = await startPostgres()
  database = await openForWriting({ url: await postgres.database('leases'), sslMode: 'disable' })
})
test.after(async () => {
  await database.destroy()
  await postgres.close()
})

const signal = new AbortController().signal

test('a replica waits for another one’s work, and takes over if that one has died', async () => {
  const done: string[] = []
  const started: string[] = []
  const createWork = (holder: string, ms: number) => async () => {
    started.push(holder)
    await new Promise((resolve) => setTimeout(resolve, ms))
    done.push(holder)
    return holder
  }
  const first = underLease(database, { name: 'sync a', holder: 'one', signal }, createWork('one', 300))
  await eventually('the first one works', () => started.includes('one'))
  assert.is(await underLease(database, { name: 'sync a', holder: 'two', signal }, createWork('two', 0)), 'two')
  assert.is(await first, 'one')
  assert.equal(done, ['one', 'two'])

  const expires_at = Date.now() + 500
  await database.insertInto('lease').values({ name: 'sync a', holder: 'dead', expires_at }).execute()
  assert.is(await underLease(database, { name: 'sync a', holder: 'two', signal }, createWork('two', 0)), 'two')
  assert.ok(Date.now() >= expires_at)
})

test('a shutdown ends the wait', async () => {
  await database.insertInto('lease').values({ name: 'sync b', holder: 'one', expires_at: Number.MAX_VALUE }).execute()
  const stopping = new AbortController()
  const waits = underLease(database, { name: 'sync b', holder: 'two', signal: stopping.signal }, async () => 'done')
  setTimeout(() => stopping.abort(new Error('stopped')), 50)
  await waits.then(
    () => assert.unreachable('it has not the lease'),
    (error: Error) => assert.is(error.message, 'stopped'),
  )
})

test.run()
