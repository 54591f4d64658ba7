import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { wrongArrows } from '../../check/arrows.ts'

test('a room may import what the architecture lets it', () => {
  assert.equal(wrongArrows('dataplane/gateway/index.ts', "import { a } from '../server/errors.ts'"), [])
  assert.equal(wrongArrows('operator/render/pod.ts', "import { a } from '../../dataplane/config/gateway.ts'"), [])
  assert.equal(wrongArrows('dataplane/config/gateway.ts', "import { a } from '../../crds/shared/duration.ts'"), [])
  assert.equal(wrongArrows('cli/run.ts', "const a = await import('../operator/standalone/index.ts')"), [])
})

test('gateway and registry do not know each other', () => {
  assert.equal(wrongArrows('dataplane/gateway/index.ts', "import { a } from '../registry/index.ts'"), [
    'dataplane/gateway/index.ts: may not import dataplane/registry/index.ts',
  ])
})

test('the data plane knows nothing of the operator, of kinds or of the command', () => {
  for (const target of ['../../operator/model/view.ts', '../../crds/index.ts', '../../cli/main.ts']) {
    assert.is(wrongArrows('dataplane/registry/index.ts', `import x from '${target}'`).length, 1, target)
  }
})

test('a dynamic import and a re-export are arrows too', () => {
  assert.is(wrongArrows('dataplane/net/a.ts', "await import('../gateway/index.ts')").length, 1)
  assert.is(wrongArrows('dataplane/net/a.ts', "export * from '../gateway/index.ts'").length, 1)
  assert.is(wrongArrows('dataplane/net/a.ts', "import '../gateway/index.ts'").length, 1)
})

test('a file outside every room is reported', () => {
  assert.equal(wrongArrows('dataplane/odds/a.ts', ''), ['dataplane/odds/a.ts: lies in no room'])
})

test.run()
