import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readImports } from '../../check/imports.ts'
import { readWays, wrongSteps } from '../../check/ways.ts'
import { mcpServer } from '../../crds/index.ts'
import { explainedPlan } from '../../operator/reconcile/index.ts'
import { eventually } from '../support/eventually.ts'
import { filesRun } from '../support/files-run.ts'
import { startGateway } from '../support/gateway/gateway.ts'
import { postModern } from '../support/gateway/post.ts'
import { buildWorld, context } from '../support/operator/plans.ts'
import { startAuthzRegistry } from '../support/registry/authz.ts'
import { answer, OK_RESULT, startRawServer, tool } from '../support/servers/raw-server.ts'

const root = new URL('../../', import.meta.url)
const imports = new Map([
  ['a.ts', ['b.ts']],
  ['b.ts', ['c.ts']],
  ['c.ts', []],
])
const way = (...files: readonly string[]) => ({ name: 'a test', files, measured: 3 })
const ways = readWays(readFileSync(new URL('docs/architecture.md', root), 'utf8'))

test('docs/architecture.md lists the files of a call, a page and a reconcile as imported', () => {
  assert.equal(
    ways.map(({ name }) => name),
    ['a tools/call', 'a page of the catalog', 'a reconcile'],
  )
  const real = readImports(root.pathname)
  assert.equal(
    ways.flatMap((listed) => wrongSteps(listed, real)),
    [],
  )
})

/** Compares the number that docs/architecture.md gives for a way with the files whose functions run on each call. */
async function checkCount(name: string, run: () => unknown): Promise<void> {
  const files = await filesRun(root, run)
  const measured = ways.find((listed) => listed.name === name)?.measured
  assert.is(
    measured,
    files.length,
    `docs/architecture.md, the way of ${name}: ${files.length} files run:\n${files.join('\n')}`,
  )
}

test('the number of files of a tools/call is the one that is measured', async () => {
  const backend = await startRawServer({
    era: 'modern',
    tools: [tool('t')],
    call: (request) => answer(request, OK_RESULT),
  })
  const gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }] })
  try {
    await checkCount('a tools/call', async () => {
      const { text } = await postModern(gateway.url, 'tools/call', { name: 'b_t', arguments: {} })
      assert.match(text, OK_RESULT)
    })
  } finally {
    await gateway.close()
    await backend.close()
  }
})

test('the number of files of a page of the catalog is the one that is measured', async () => {
  const registry = await startAuthzRegistry()
  let limit = 0
  // A different page each time, so that its body is not cached.
  const readPage = () => registry.as('platform-writer', 'GET', `/registry/acme-all/v0.1/servers?limit=${++limit}`)
  try {
    // On a busy machine the registry's first request for the provider's keys may take too long.
    await eventually('the token can be checked', async () => (await readPage()).status === 200)
    await checkCount('a page of the catalog', async () => {
      const { status, body } = await readPage()
      assert.is(status, 200, JSON.stringify(body))
    })
  } finally {
    await registry.close()
  }
})

test('the number of files of a reconcile is the one that is measured', async () => {
  const { view } = buildWorld(readFileSync(new URL('test/operator/golden/mcp-server.in.yaml', root), 'utf8'))
  const object = view.get(mcpServer, 'default', 'fetch')
  assert.ok(object)
  await checkCount('a reconcile', () => explainedPlan(object, view, context))
})

test('a list is read from its heading to the next', () => {
  const text =
    '# A\n\n### The way of x\n\nMeasured: 12 files\n\n1. `a.ts`: does\n2. `b.ts`: `c.ts` too\n\nText `d.ts`\n## B\n\n1. `e.ts`\n'
  assert.equal(readWays(text), [{ name: 'x', files: ['a.ts', 'b.ts'], measured: 12 }])
})

test('a file that no earlier one imports is refused', () => {
  assert.equal(wrongSteps(way('a.ts', 'b.ts', 'c.ts'), imports), [])
  assert.equal(wrongSteps(way('a.ts', 'c.ts'), imports), ['the way of a test: no file before c.ts imports it'])
  assert.equal(wrongSteps(way('b.ts', 'a.ts'), imports), ['the way of a test: no file before a.ts imports it'])
})

test('a file that is gone, one listed twice, and a way without files or without a number are refused', () => {
  assert.equal(wrongSteps(way('a.ts', 'x.ts'), imports), ['the way of a test: there is no x.ts'])
  assert.equal(wrongSteps(way('a.ts', 'b.ts', 'b.ts'), imports), ['the way of a test: b.ts is listed twice'])
  assert.equal(wrongSteps({ ...way('a.ts'), measured: undefined }, imports), [
    'the way of a test does not say how many files run on it',
  ])
  assert.equal(wrongSteps(way(), imports), ['the way of a test has no files'])
})

test.run()
