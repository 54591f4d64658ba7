/** Checks that every client that our programs and tests create has a listener for `error` events. */
import { globSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

/** Clients that emit `error` when a connection is lost. Without a listener the process ends, or its log fills up. */
const MADE = /\bnew (?:Redis|Cluster|(?:pg\.)?Pool|pg\.Client)\(/
/** The only files that create such clients, each with listeners. `Pool` of undici emits no `error`. */
const MAKERS = [
  'dataplane/net/connect.ts',
  'dataplane/storage/redis.ts',
  'dataplane/storage/sql-postgres.ts',
  'test/support/network/open-clients.ts',
]

test('Redis and PostgreSQL clients are only created where they get an error listener', () => {
  const files = globSync('{bench,bin,check,cli,dataplane,build,operator,samples,test}/**/*.ts').sort()
  assert.ok(files.length > 1_000)
  const makers = files.filter((file) => !file.includes('node_modules') && MADE.test(readFileSync(file, 'utf8')))
  assert.equal(makers, MAKERS)
  for (const file of MAKERS.slice(1)) assert.match(readFileSync(file, 'utf8'), ".on('error', ")
})

test.run()
