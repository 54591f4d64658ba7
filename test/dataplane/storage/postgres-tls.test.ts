import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { extractTls, type SslMode } from '../../../dataplane/storage/postgres-tls.ts'
import { openDatabase } from '../../../dataplane/storage/sql.ts'
import { listenPostgres } from '../../../dataplane/storage/sql-postgres.ts'
import { eventually } from '../../support/eventually.ts'
import { type Authority, createAuthority } from '../../support/network/certificates.ts'
import { startPostgres, type TestPostgres } from '../../support/network/postgres.ts'

let postgres: TestPostgres
let own: Authority
let other: Authority
let url = ''
/** A URL with another host name than the certificate, which is for loopback. */
let wrongHost = ''
test.before(async () => {
  own = await createAuthority()
  other = await createAuthority()
  postgres = await startPostgres()
  url = await postgres.database('tls')
  wrongHost = url.replace('127.0.0.1', '127.0.0.2')
})
test.after(async () => {
  await postgres.close()
  await own.remove()
  await other.remove()
})

const ALL = ['local all all trust', 'host all all all trust']

async function serve(tls: boolean, access = ALL): Promise<void> {
  const certificate = await postgres.file('server.pem', own.cert)
  const key = await postgres.file('server.key', own.key)
  const listen = { listen_addresses: '127.0.0.1,127.0.0.2' }
  await postgres.configure(
    tls ? { ...listen, ssl: 'on', ssl_cert_file: certificate, ssl_key_file: key } : listen,
    access,
  )
}

/** Returns `tls` or `plain` for a connection, or `refused`. */
async function tryConnection(place: { url: string; sslMode?: SslMode; caFile?: string }): Promise<string> {
  const database = openDatabase({ dialect: 'postgres', postgres: place, connections: 2, connectionWaitMs: 60_000 })
  try {
    const { rows } = await sql<{ ssl: boolean }>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`.execute(
      database,
    )
    return rows[0]?.ssl ? 'tls' : 'plain'
  } catch {
    return 'refused'
  } finally {
    await database.destroy()
  }
}

const ca = (authority: Authority) => join(authority.directory, 'ca.pem')

async function checkModes(
  expected: Readonly<Record<string, string>>,
  of: (mode: SslMode) => Promise<string>,
): Promise<void> {
  const found: Record<string, string> = {}
  for (const mode of Object.keys(expected)) found[mode] = await of(mode as SslMode)
  assert.equal(found, expected)
}

test('a server with TLS', async () => {
  await serve(true)
  const unknown = { disable: 'plain', allow: 'plain', prefer: 'tls', require: 'tls' }
  await checkModes({ ...unknown, 'verify-ca': 'refused', 'verify-full': 'refused' }, (sslMode) =>
    tryConnection({ url, sslMode }),
  )
  const checked = { 'verify-ca': 'tls', 'verify-full': 'tls', require: 'tls' }
  await checkModes(checked, (sslMode) => tryConnection({ url, sslMode, caFile: ca(own) }))
  // A certificate of another CA; like libpq, `require` means `verify-ca` if a CA is configured.
  const foreign = { require: 'refused', 'verify-ca': 'refused', 'verify-full': 'refused', prefer: 'tls' }
  await checkModes(foreign, (sslMode) => tryConnection({ url, sslMode, caFile: ca(other) }))
  await checkModes({ 'verify-ca': 'tls', 'verify-full': 'refused' }, (sslMode) =>
    tryConnection({ url: wrongHost, sslMode, caFile: ca(own) }),
  )
})

test('the mode and the CA in the URL apply if the configuration has none', async () => {
  await serve(true)
  const root = `sslrootcert=${encodeURIComponent(ca(own))}`
  assert.is(await tryConnection({ url }), 'tls')
  assert.is(await tryConnection({ url: `${url}?sslmode=disable` }), 'plain')
  assert.is(await tryConnection({ url: `${url}?sslmode=verify-full&${root}` }), 'tls')
  assert.is(await tryConnection({ url: `${wrongHost}?sslmode=verify-full&${root}` }), 'refused')
  assert.is(await tryConnection({ url: `${url}?sslmode=disable`, sslMode: 'verify-full' }), 'refused')
  assert.is(await tryConnection({ url: `${url}?sslmode=nonsense` }), 'refused')
  assert.throws(() => extractTls(`${url}?sslmode=nonsense`, {}), /unknown sslmode/)
})

test('a server without TLS', async () => {
  await serve(false)
  const expected = { disable: 'plain', allow: 'plain', prefer: 'plain', require: 'refused', 'verify-full': 'refused' }
  await checkModes(expected, (sslMode) =>
    tryConnection({ url, sslMode, ...(sslMode === 'verify-full' && { caFile: ca(own) }) }),
  )
  let notifications = 0
  const subscription = listenPostgres({ url, sslMode: 'prefer' }, 'news', {
    onNotification: () => notifications++,
    onLost() {},
  })
  await eventually('it is listened to in plain text', () => notifications > 0)
  await subscription.close()
})

test('a server that requires TLS, and one that refuses it', async () => {
  await serve(true, ['hostssl all all all trust'])
  await checkModes({ disable: 'refused', allow: 'tls', prefer: 'tls' }, (sslMode) => tryConnection({ url, sslMode }))
  await serve(true, ['hostnossl all all all trust'])
  await checkModes({ allow: 'plain', prefer: 'plain', require: 'refused' }, (sslMode) =>
    tryConnection({ url, sslMode }),
  )
})

test('a CA file that can’t be read connects nobody', async () => {
  await serve(true)
  const file = join(own.directory, 'nothing.pem')
  assert.is(await tryConnection({ url, sslMode: 'verify-full', caFile: file }), 'refused')
  await writeFile(file, 'no certificate')
  assert.is(await tryConnection({ url, sslMode: 'verify-full', caFile: file }), 'refused')
})

test.run()
