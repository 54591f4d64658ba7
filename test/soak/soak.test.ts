import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type SoakReport, soak, verdict } from './soak.ts'

test('growth, a wrong answer and a run without calls are findings', () => {
  const MIB = 1024 * 1024
  const early = { heap: 30 * MIB, external: 10 * MIB, rss: 200 * MIB, files: 40 }
  const report = { calls: 9, sessions: 1, resumed: 1, reloads: 1, seconds: 600, wrong: [], early, late: early }
  const countFindings = (more: Partial<SoakReport>) => verdict({ ...report, ...more }).length
  assert.is(countFindings({}), 0)
  assert.is(countFindings({ late: { ...early, heap: 35 * MIB } }), 1)
  assert.is(countFindings({ late: { ...early, external: 19 * MIB } }), 1)
  assert.is(countFindings({ late: { ...early, rss: 270 * MIB } }), 1)
  assert.is(countFindings({ late: { ...early, rss: 270 * MIB }, seconds: 60 }), 0)
  assert.is(countFindings({ late: { ...early, files: 70 } }), 1)
  assert.is(countFindings({ wrong: ['500'] }), 1)
  assert.is(countFindings({ resumed: 0 }), 1)
})

test('during a quarter of a minute of calls, reconnects and reloads every answer is right, and memory and open files do not grow', async () => {
  const report = await soak(15)
  assert.equal(verdict(report), [], JSON.stringify(report))
  assert.ok(report.sessions > 10 && report.reloads > 10, 'there was something to do')
})

test.run()
