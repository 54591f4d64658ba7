import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { besiege, findings, type Siege } from './siege.ts'

test('too much memory and unanswered calls of another client are findings', () => {
  const good: Siege = { name: 'a', peak: 200e6, most: 350e6, statuses: {}, served: 30, wrong: [], seconds: 1 }
  assert.equal(findings(good), [])
  for (const bad of [{ peak: 400e6 }, { peak: Number.NaN }, { served: 3 }, { wrong: ['503'] }])
    assert.is(findings({ ...good, ...bad }).length, 1, JSON.stringify(bad))
})

test('under a quarter of each attack in turn, a gateway stays within its memory and serves others', async () => {
  const sieges: Siege[] = []
  await besiege({ share: 0.25, fresh: false }, (siege) => void sieges.push(siege))
  assert.ok(sieges.length > 15)
  assert.equal(sieges.flatMap(findings), [], JSON.stringify(sieges))
})

test.run()
