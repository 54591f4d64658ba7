import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type Check,
  type ConformanceResult,
  isOfExtension,
  listFailures,
  runClientScenarios,
  runConformance,
  serverScenarios,
} from '../../../support/gateway/conformance.ts'
import { driveGateway } from '../../../support/gateway/conformance-driver.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { startMcpServer } from '../../../support/servers/dual-server.ts'
import { type ReferenceEras, type ReferenceServer, startReference } from '../../../support/servers/reference.ts'

/** A second server for gateways, with its own tools. */
const other = await startMcpServer({ name: 'other' })
test.after(() => other.close())

/** Statuses from best to worst. */
const RANKS: readonly Check['status'][] = ['SUCCESS', 'INFO', 'SKIPPED', 'WARNING', 'FAILURE']
const findRank = ({ status }: Check): number => RANKS.indexOf(status)

/** Returns the checks of a scenario by id; several with one id are sorted from best to worst. */
function byId(checks: readonly Check[]): Map<string, Check[]> {
  const found = new Map<string, Check[]>()
  for (const check of checks) found.set(check.id, [...(found.get(check.id) ?? []), check])
  for (const same of found.values()) same.sort((a, b) => findRank(a) - findRank(b))
  return found
}

/**
 * Intended differences. The gateway answers lists as JSON, from its cache. It resumes a stream that the backend breaks
 * off, so its client's stream stays open and there is nothing to resume.
 */
const OTHERWISE: ReadonlySet<string> = new Set([
  'server-sse-streams-functional: SUCCESS directly, INFO',
  'server-sse-disconnect-resume: SUCCESS directly, INFO',
])

/** Returns each check that is worse through the gateway than directly, or missing. */
function listLost(direct: ConformanceResult, through: ConformanceResult): string[] {
  return [...direct].flatMap(([scenario, checks]) => {
    const found = byId(through.get(scenario) ?? [])
    return [...byId(checks)].flatMap(([id, expected]) =>
      expected.flatMap((check, index) => {
        const other = found.get(id)?.[index]
        if (other !== undefined && findRank(other) <= findRank(check)) return []
        // An INFO check is a note about the messages and not a result.
        if (other === undefined && check.status === 'INFO') return []
        const { status, errorMessage = '' } = other ?? { status: 'lost' }
        const line = `${id}: ${check.status} directly, ${status}`
        return OTHERWISE.has(line) ? [] : [`${scenario} ${line} through it: ${errorMessage}`]
      }),
    )
  })
}

const countPassed = (results: ConformanceResult): number =>
  [...results.values()].filter((checks) => listFailures(checks).length === 0).length

type Way = readonly [eras: ReferenceEras, role: 'proxy' | 'gateway']

/** Both client eras with a backend of both, and a legacy client with a backend that has not been upgraded. */
const runs: readonly { requirements: string; ways: readonly Way[]; least: number }[] = [
  {
    requirements: '2025-11-25',
    ways: [
      ['both', 'proxy'],
      ['sessions', 'gateway'],
    ],
    least: 33,
  },
  {
    requirements: '2026-07-28',
    ways: [
      ['both', 'proxy'],
      ['both', 'gateway'],
    ],
    least: 41,
  },
]

/** Starts a proxy for a server, or a gateway for it and another one. */
function startWay(role: Way[1], url: string) {
  const reference = { name: 'reference', url }
  if (role === 'proxy') return startGateway({ role, backends: [reference] })
  return startGateway({
    role,
    backends: [reference, { name: 'other', url: other.url }],
    // The tools keep the names that the suite expects.
    aggregation: {
      conflictResolution: 'priority',
      conflictResolutionConfig: { priorityOrder: ['reference', 'other'] },
    },
  })
}

/** The server scenarios that ran both directly and through proxies and gateways. */
const compared = new Set<string>()

for (const { requirements, ways, least } of runs)
  test(`${requirements} through ${ways.map((way) => way.join(' by a ')).join(' and ')}: all that passes directly`, async () => {
    const backends = await Promise.all(ways.map(([eras]) => startReference(eras)))
    const gateways = await Promise.all(backends.map(({ url }, index) => startWay((ways[index] as Way)[1], url)))
    try {
      // A legacy client uses sessions with a backend of both eras.
      const direct = await runConformance((backends[0] as ReferenceServer).url, requirements)
      for (const scenario of direct.keys()) compared.add(scenario)
      assert.ok(countPassed(direct) >= least, `${countPassed(direct)} scenarios pass directly`)
      for (const [index, { url }] of gateways.entries())
        assert.equal(listLost(direct, await runConformance(url, requirements)), [], ways[index]?.join(' '))
    } finally {
      await Promise.all([...gateways, ...backends].map((one) => one.close()))
    }
  })

test('every server scenario of the installed suite is compared, but those of extensions, which have a test of their own', async () => {
  const names = await serverScenarios()
  assert.equal(
    names.filter((name) => !compared.has(name) && !isOfExtension(name)),
    [],
  )
})

const AS_A_CLIENT = [
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
]

test('the gateway as a client', async () => {
  const results = await runClientScenarios(AS_A_CLIENT, driveGateway)
  for (const scenario of AS_A_CLIENT) {
    const checks = results.get(scenario)
    assert.ok(checks, `${scenario} ran`)
    assert.equal(listFailures(checks), [], scenario)
  }
})

test.run()
