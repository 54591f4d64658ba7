/** No client of ours, in programs or tests, leaves an `error` event without a listener. */
import { globSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

/** What emits `error` whenever a connection is lost: unheard it ends the process, or fills its log. */
const MADE = /\bnew (?:Redis|Cluster|(?:pg\.)?Pool|pg\.Client)\(/
/** Where such clients are made; each has its listeners, and is the one way to them. `Pool` of undici emits none. */
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
