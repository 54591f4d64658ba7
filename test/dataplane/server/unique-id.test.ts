import { fork } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { uniqueId } from '../../../dataplane/server/request-id.ts'

/** RFC 9562, section 5.8. */
const UUID_8 = /^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/

if (process.send === undefined) {
  test('ids are UUIDs of version 8, and none repeats', () => {
    const ids = Array.from({ length: 10_000 }, uniqueId)
    for (const id of ids) assert.match(id, UUID_8)
    assert.is(new Set(ids).size, ids.length)
  })

  test('the first ids of two processes differ', async () => {
    const child = fork(import.meta.filename)
    const [id] = await once(child, 'message')
    await once(child, 'exit')
    assert.match(String(id), UUID_8)
    assert.is.not(String(id).slice(0, 23), uniqueId().slice(0, 23))
  })

  test.run()
} else {
  process.send(uniqueId())
  process.disconnect()
}
