import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type Check,
  type ConformanceResult,
  failuresOf,
  runClientScenario,
  runConformance,
} from '../../../support/gateway/conformance.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { type ReferenceEras, startReference } from '../../../support/servers/reference.ts'

/** From good to bad. */
const RANKS: readonly Check['status'][] = ['SUCCESS', 'INFO', 'SKIPPED', 'WARNING', 'FAILURE']
const rankOf = ({ status }: Check): number => RANKS.indexOf(status)

/** Each check of a scenario by its id, from good to bad where there are several of one. */
function byId(checks: readonly Check[]): Map<string, Check[]> {
  const found = new Map<string, Check[]>()
  for (const check of checks) found.set(check.id, [...(found.get(check.id) ?? []), check])
  for (const same of found.values()) same.sort((a, b) => rankOf(a) - rankOf(b))
  return found
}

/**
 * What comes out otherwise on purpose. Lists are answered from what is there, as JSON. A stream that the backend breaks
 * off is gone on with by the gateway: its client has one stream, and nothing to come back for.
 */
const OTHERWISE: ReadonlySet<string> = new Set([
  'server-sse-streams-functional: SUCCESS directly, INFO',
  'server-sse-disconnect-resume: SUCCESS directly, INFO',
])

/** Each check that comes out worse through the gateway than directly, or not at all. */
function lost(direct: ConformanceResult, through: ConformanceResult): string[] {
  return [...direct].flatMap(([scenario, checks]) => {
    const found = byId(through.get(scenario) ?? [])
    return [...byId(checks)].flatMap(([id, expected]) =>
      expected.flatMap((check, index) => {
        const other = found.get(id)?.[index]
        if (other !== undefined && rankOf(other) <= rankOf(check)) return []
        // A note on what went over the wire is no verdict.
        if (other === undefined && check.status === 'INFO') return []
        const { status, errorMessage = '' } = other ?? { status: 'lost' }
        const line = `${id}: ${check.status} directly, ${status}`
        return OTHERWISE.has(line) ? [] : [`${scenario} ${line} through it: ${errorMessage}`]
      }),
    )
  })
}

const passed = (results: ConformanceResult): number =>
  [...results.values()].filter((checks) => failuresOf(checks).length === 0).length

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

const DRIVER = new URL('../../../support/gateway/conformance-driver.ts', import.meta.url)

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
