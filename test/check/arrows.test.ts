import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { circles, rooms, unusedAllowances, wrongArrows, wrongCircles, wrongFloors } from '../../check/arrows.ts'
import { findImports, type Imports, readImports } from '../../check/imports.ts'

const sources: Imports = readImports(new URL('../../', import.meta.url).pathname)
const findWrong = (file: string, source: string) => wrongArrows(file, findImports(file, source))

test('a room may import what the architecture allows', () => {
  assert.equal(findWrong('dataplane/gateway/index.ts', "import { a } from '../server/errors.ts'"), [])
  assert.equal(findWrong('operator/reconcile/plan.ts', "import { a } from '../../dataplane/config/gateway.ts'"), [])
  assert.equal(findWrong('dataplane/config/gateway.ts', "import { a } from '../../crds/settings/duration.ts'"), [])
  assert.equal(findWrong('cli/run/index.ts', "const a = await import('../../operator/standalone/standalone.ts')"), [])
})

test('gateway and registry do not know each other', () => {
  assert.equal(findWrong('dataplane/gateway/index.ts', "import { a } from '../registry/index.ts'"), [
    'dataplane/gateway/index.ts: may not import dataplane/registry/index.ts',
  ])
})

test('the data plane knows nothing of the operator, of kinds or of the command', () => {
  for (const target of ['../../operator/model/view.ts', '../../crds/index.ts', '../../cli/main.ts']) {
    assert.is(findWrong('dataplane/registry/index.ts', `import x from '${target}'`).length, 1, target)
  }
})

test('a dynamic import, a re-export and a type are arrows too', () => {
  assert.is(findWrong('dataplane/net/a.ts', "await import('../gateway/index.ts')").length, 1)
  assert.is(findWrong('dataplane/net/a.ts', "export * from '../gateway/index.ts'").length, 1)
  assert.is(findWrong('dataplane/net/a.ts', "import '../gateway/index.ts'").length, 1)
  assert.is(findWrong('dataplane/net/a.ts', "import type { A } from '../gateway/index.ts'").length, 1)
})

test('a file outside every room is reported', () => {
  assert.equal(findWrong('dataplane/odds/a.ts', ''), ['dataplane/odds/a.ts: lies in no room'])
})

test('a nested room imports those below it, and the files of the outer room import all of them', () => {
  assert.equal(findWrong('operator/runtime/loop/a.ts', "import '../queue/queue.ts'"), [])
  assert.equal(findWrong('operator/runtime/a.ts', "import './loop/controller.ts'"), [])
  assert.equal(findWrong('operator/runtime/queue/a.ts', "import '../loop/controller.ts'"), [
    'operator/runtime/queue/a.ts: may not import operator/runtime/loop/controller.ts',
  ])
  assert.is(findWrong('operator/runtime/queue/a.ts', "import '../a.ts'").length, 1)
})

test('each folder of a room has a level, and each level a folder', () => {
  assert.equal(wrongFloors(sources.keys()), [])
  assert.equal(wrongFloors([...sources.keys(), 'operator/render/odds/a.ts']), ['operator/render/odds: has no floor'])
  const less = [...sources.keys()].filter((file) => !file.startsWith('operator/render/pod/'))
  assert.equal(wrongFloors(less), ['operator/render/pod: has a floor and no files'])
})

test('every exception is used, and an unused one is reported', () => {
  assert.equal(unusedAllowances(sources), [])
  const less = new Map([...sources].filter(([file]) => !file.startsWith('dataplane/storage/')))
  assert.equal(
    unusedAllowances(less),
    rooms
      .filter(({ path }) => path === 'dataplane/storage')
      .flatMap(({ path, mayImport }) => mayImport.map((to) => `${path}: may import ${to}, and does not`)),
  )
})

test('import cycles of any length are found', () => {
  const graph = new Map([
    ['a', ['b', 'x']],
    ['b', ['c']],
    ['c', ['a', 'd']],
    ['d', ['e']],
    ['e', []],
    ['f', ['g', 'a']],
    ['g', ['f']],
  ])
  assert.equal(circles(graph), [
    ['a', 'b', 'c'],
    ['f', 'g'],
  ])
  const long = new Map(Array.from({ length: 20_000 }, (_, i) => [`${i}`, [`${(i + 1) % 20_000}`]]))
  assert.is(circles(long)[0]?.length, 20_000)
  assert.equal(circles(new Map([['a', ['a']]])), [['a']])
})

test('an import cycle is refused, also of types alone', () => {
  assert.equal(wrongCircles(sources), [])
  const circle = new Map([...sources, ['cli/a.ts', ['cli/b.ts']], ['cli/b.ts', ['cli/a.ts']]])
  assert.equal(wrongCircles(circle), ['a circle of 2: cli/a.ts cli/b.ts'])
})

test.run()
