import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { watchManifests } from '../../../operator/cluster/files/index.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'

/** Counts the calls; `after` runs an action and waits for the call that it causes. */
function startWatch(paths: readonly string[], options: { quietMs?: number; pollMs?: number } = {}) {
  let calls = 0
  const watch = watchManifests(paths, () => calls++, { pollMs: 3_600_000, ...options })
  return {
    async after(what: string, act: () => void) {
      const before = calls
      act()
      await eventually(`${what} is noticed`, () => calls > before)
    },
    calls: () => calls,
    [Symbol.dispose]: () => watch.close(),
  }
}

test('edits in place, by renaming, in new folders below, removals: each is noticed', async () => {
  using folder = temporaryFolder({ 'a.yaml': 'a: 1' })
  using watch = startWatch([folder.path])
  await watch.after('an edit', () => folder.write('a.yaml', 'a: 2'))
  await watch.after('a rename over it', () => {
    const next = folder.write('a.yaml~', 'a: 3')
    renameSync(next, join(folder.path, 'a.yaml'))
  })
  await watch.after('a new folder', () => {
    mkdirSync(join(folder.path, 'sub'))
    folder.write('sub/b.yaml', 'b: 1')
  })
  await watch.after('an edit in it', () => folder.write('sub/b.yaml', 'b: 2'))
  await watch.after('a removal', () => rmSync(join(folder.path, 'sub'), { recursive: true }))
})

test('a file that was named, whatever its ending, replaced by renaming', async () => {
  using folder = temporaryFolder({ 'all.manifest': 'a: 1' })
  using watch = startWatch([join(folder.path, 'all.manifest')])
  for (const content of ['a: 2', 'a: 3']) {
    await watch.after('a rename over it', () =>
      renameSync(folder.write('next', content), join(folder.path, 'all.manifest')),
    )
  }
})

test('a burst of edits is one change; other files are none', async () => {
  using folder = temporaryFolder({ 'a.yaml': 'a: 1' })
  using watch = startWatch([folder.path], { quietMs: 200 })
  await watch.after('the burst', () => {
    for (let edit = 0; edit < 20; edit++) folder.write('a.yaml', `a: ${edit}`)
    folder.write('notes.txt', 'x')
  })
  folder.write('server.log', 'x')
  assert.is(watch.calls(), 1)
})

test('a folder that went away and came back is noticed by polling', async () => {
  using folder = temporaryFolder({ 'manifests/a.yaml': 'a: 1' })
  const manifests = join(folder.path, 'manifests')
  using watch = startWatch([manifests], { pollMs: 50 })
  await watch.after('its removal', () => rmSync(manifests, { recursive: true }))
  await watch.after('its return', () => folder.write('manifests/a.yaml', 'a: 2'))
  await watch.after('an edit', () => folder.write('manifests/a.yaml', 'a: 33'))
})

test.run()
