import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type ConformanceResult, runClientScenario, runConformance } from '../../support/conformance.ts'
import { startGateway } from '../../support/mcp-gateway.ts'
import { type ReferenceEras, startReference } from '../../support/mcp-reference.ts'

/** What fails through the gateway and passes directly. */
const lost = (direct: ConformanceResult, through: ConformanceResult) =>
  [...direct]
    .filter(([, failures]) => failures.length === 0)
    .map(([scenario]) => [scenario, through.get(scenario) ?? ['did not run']] as const)
    .filter(([, failures]) => failures.length > 0)

const passed = (results: ConformanceResult): number =>
  [...results.values()].filter((failures) => failures.length === 0).length

/** Both client eras against a backend of both, and a legacy client against a backend that has not been upgraded. */
const runs: readonly { eras: ReferenceEras; requirements: string; least: number }[] = [
  { eras: 'both', requirements: '2025-11-25', least: 33 },
  { eras: 'both', requirements: '2026-07-28', least: 41 },
  { eras: 'sessions', requirements: '2025-11-25', least: 33 },
]

for (const { eras, requirements, least } of runs)
  test(`${requirements} through the gateway, backend of ${eras}: all that passes directly`, async () => {
    const backend = await startReference(eras)
    const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'reference', url: backend.url }] })
    try {
      const direct = await runConformance(backend.url, requirements)
      const through = await runConformance(gateway.url, requirements)
      assert.ok(passed(direct) >= least, `${passed(direct)} scenarios pass directly`)
      assert.equal(lost(direct, through), [])
    } finally {
      await gateway.close()
      await backend.close()
    }
  })

const DRIVER = new URL('../../support/conformance-driver.ts', import.meta.url)

for (const scenario of [
  'initialize',
  'tools_call',
  'elicitation-sep1034-client-defaults',
  'sse-retry',
  'request-metadata',
  'http-standard-headers',
  'http-custom-headers',
  'http-invalid-tool-headers',
  'json-schema-ref-no-deref',
  'json-schema-2020-12-preservation',
  'sep-2322-client-request-state',
])
  test(`the gateway as a client: ${scenario}`, async () => {
    assert.equal(await runClientScenario(DRIVER, scenario), [])
  })

test.run()
