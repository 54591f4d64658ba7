import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { toolSummaries } from '../../../../dataplane/gateway/page/overview.ts'

const buildSummaries = (...tools: object[]) =>
  toolSummaries({
    routes: new Map(tools.map((_, index) => [String(index), { backend: 'b' }])),
    legacyList: Buffer.from(JSON.stringify({ tools })),
  } as unknown as Parameters<typeof toolSummaries>[0]).tools

test('names and descriptions are cut to a length that suits a page', () => {
  const [tool] = buildSummaries({ name: 'n'.repeat(200), description: 'd'.repeat(1000) })
  assert.is(tool?.name, `${'n'.repeat(127)}…`)
  assert.is(tool?.description, `${'d'.repeat(299)}…`)
})

test('a text is never cut within a character', () => {
  const [tool] = buildSummaries({ name: 'a', description: `${'d'.repeat(298)}😀😀` })
  assert.is(tool?.description, `${'d'.repeat(298)}\ufffd…`)
})

test('a description of more than 64 Ki characters is ignored; a shorter one is whole', () => {
  const [long, fits] = buildSummaries(
    { name: 'a', description: 'd'.repeat(70_000) },
    { name: 'b', description: 'd'.repeat(300) },
  )
  assert.is(long?.description, '')
  assert.is(fits?.description, 'd'.repeat(300))
})

test.run()
