/** Checks that the bundle's compiled configuration check gives the same results as the one built at run time. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { compiledValidators } from '../../../build/patches/validators.ts'
import { gatewayConfigSchema } from '../../../dataplane/config/gateway.ts'
import { acceptor } from '../../../dataplane/config/schema-violations.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { findChild, plansOfText } from '../../support/operator/plans.ts'

/** Built as in accepts-gateway.ts, which test files may load compiled (setup/runner/modules.ts). */
const acceptsGateway = acceptor(gatewayConfigSchema)
const root = join(import.meta.dirname, '../../..')
const goldens = join(root, 'test/operator/golden')
const WRONG: readonly unknown[] = [null, true, 7, 'text', 'https://a.example', '', [], {}, [[]], [null], { a: 1 }]

/** Yields the gateway configurations in the golden files. */
function* generateConfigs(): Generator<object> {
  for (const name of readdirSync(goldens).filter((file) => file.endsWith('.in.yaml')))
    for (const [, plan] of plansOfText(readFileSync(join(goldens, name), 'utf8'))) {
      if (plan.children === 'hold' || plan.children.length === 0) continue
      const { data } = findChild(plan, 'ConfigMap') as unknown as { data: Record<string, string> }
      if (data['gateway.yaml'] !== undefined) yield parse(data['gateway.yaml'])
    }
}

/** Yields each value with one change: a member left out, replaced or added. */
function* generateChanges(value: object): Generator<unknown> {
  yield structuredClone(value)
  const places: (readonly string[])[] = [[]]
  for (let path = places.pop(); path !== undefined; path = places.pop()) {
    const findParent = (copy: unknown) =>
      (path as string[]).reduce((parent, key) => (parent as never)[key], copy) as object
    for (const key of Object.keys(findParent(value))) {
      for (const wrong of WRONG) {
        const copy = structuredClone(value)
        Object.assign(findParent(copy), { [key]: wrong })
        yield copy
      }
      const copy = structuredClone(value)
      delete (findParent(copy) as Record<string, unknown>)[key]
      if (!Array.isArray(findParent(value))) yield copy
      const next = [...path, key]
      if (typeof (findParent(value) as Record<string, unknown>)[key] === 'object') places.push(next)
    }
    const more = structuredClone(value)
    Object.assign(findParent(more), { 'one-too-many': 1 })
    yield more
  }
}

test('the compiled validator agrees with the schema on each configuration and each change of it', async () => {
  using folder = temporaryFolder()
  const outfile = join(folder.path, 'accepts.mjs')
  await build({
    entryPoints: [join(root, 'dataplane/config/read/accepts-gateway.ts')],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    logLevel: 'silent',
    plugins: [compiledValidators],
  })
  const text = readFileSync(outfile, 'utf8')
  assert.not(text.includes('typebox') || text.includes('schemaPath'), 'no schema is compiled, no error is made')
  const compiled: { acceptsGateway: typeof acceptsGateway } = await import(pathToFileURL(outfile).href)
  const counts = { accepted: 0, refused: 0 }
  for (const config of generateConfigs())
    for (const value of generateChanges(config)) {
      const copy = structuredClone(value)
      const accepted = acceptsGateway(value)
      assert.is(compiled.acceptsGateway(copy), accepted, JSON.stringify(copy))
      assert.equal(JSON.stringify(copy), JSON.stringify(value), 'defaults')
      counts[accepted ? 'accepted' : 'refused']++
    }
  assert.ok(counts.accepted > 100 && counts.refused > 1_000, JSON.stringify(counts))
})

test.run()
