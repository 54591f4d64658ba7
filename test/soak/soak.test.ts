import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { soak, verdict } from './soak.ts'

test('a minute of calls, reconnects and reloads: every answer is right, memory and open files stay', async () => {
  const report = await soak(60)
  assert.equal(verdict(report), [], JSON.stringify(report))
  assert.ok(report.sessions > 20 && report.reloads > 20, 'there was something to do')
})

test.run()
