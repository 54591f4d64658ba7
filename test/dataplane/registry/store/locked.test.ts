import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { openStore } from '../../../../dataplane/registry/sync/open-store.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { manage, publication } from '../../../support/registry/store.ts'

test('a locked store file is waited for; then callers get 503, and the log has the reason once', async () => {
  const stateDirectory = await mkdtemp(join(tmpdir(), 'portico-locked-'))
  const { log, lines } = recordLog()
  const store = await openStore({ stateDirectory }, log)
  try {
    await manage(store)
    const other = new DatabaseSync(join(stateDirectory, 'catalog.sqlite'))
    other.exec('begin immediate')
    const refusals = await Promise.all(
      ['x/one', 'x/two'].map((name) => store.writer.publish(publication(name)).catch((error) => error.code)),
    )
    assert.equal(refusals, ['unavailable', 'unavailable'])
    const waits = store.writer.publish(publication('x/waits'))
    setTimeout(() => other.exec('rollback'), 500)
    assert.is(await waits, 'created')
    other.close()
    assert.equal(
      lines.map(({ msg, reason }) => ({ msg, reason })),
      [{ msg: 'the store can’t write a change', reason: 'database is locked' }],
    )
    assert.is(await store.writer.publish(publication('x/one')), 'created')
  } finally {
    await store.close()
    await rm(stateDirectory, { recursive: true })
  }
})

test.run()
