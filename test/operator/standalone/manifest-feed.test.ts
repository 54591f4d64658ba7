import { setTimeout as wait } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ManifestFeed } from '../../../operator/standalone/manifest-feed.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'

const group = (name: string) =>
  `apiVersion: portico.dev/v1beta1\nkind: MCPGroup\nmetadata:\n  name: ${name}\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: token\n`

/** Returns a feed of one folder, with the names of the manifests after each accepted read. */
function createFeed(path: string) {
  const readings: string[] = []
  const feed = new ManifestFeed({
    paths: [path],
    group: undefined,
    onChange: () => readings.push(feed.accepted.manifests.map(({ id }) => id.name).join(' ')),
  })
  feed.start()
  return { feed, readings, [Symbol.dispose]: () => feed.stop() }
}

test('a file that is empty for a moment, between truncating and writing, loses nothing', async () => {
  using folder = temporaryFolder({ 'all.yaml': group('one') })
  using run = createFeed(folder.path)
  folder.write('all.yaml', '')
  // Longer than the watch's quiet period, so that the empty file is read.
  await wait(150)
  folder.write('all.yaml', `${group('one')}---\n${group('two').split('---')[0]}`)
  await eventually('the edit is applied', () => run.readings.at(-1) === 'one two')
  await wait(400)
  assert.equal([...new Set(run.readings)], ['one', 'one two'])
  assert.is(run.feed.accepted.secrets.length, 1)
})

test('a file that stays empty has lost its content', async () => {
  using folder = temporaryFolder({ 'all.yaml': group('one'), 'other.yaml': group('other').split('---')[0] as string })
  using run = createFeed(folder.path)
  assert.equal(run.readings, ['one other'])
  folder.write('all.yaml', '')
  await eventually('it is gone', () => run.readings.at(-1) === 'other')
  assert.is(run.feed.accepted.secrets.length, 0)
})

test.run()
