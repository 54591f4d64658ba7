import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type Check,
  isOfExtension,
  listFailures,
  runClientScenarios,
  runExtensionScenarios,
  serverScenarios,
} from '../../../support/gateway/conformance.ts'
import { startBefore } from '../../../support/gateway/conformance-driver.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { skillText, startSkillsServer } from '../../../support/servers/skills-server.ts'
import { startTasksServer } from '../../../support/servers/tasks-server.ts'

/** Runs the conformance suite's scenarios for skills (SEP-2640) and tasks (SEP-2663), directly and through the gateway. */

const AS_A_SERVER = ['sep-2640-skills-enumeration', 'sep-2640-skills-manifest', 'sep-2640-skills-directory']

/** The suite requires unique names, as it takes the gateway for one server. */
const buildFiles = (skill: string) => ({
  [`${skill}/SKILL.md`]: skillText(skill),
  [`${skill}/references/RULES.md`]: `rules of ${skill}`,
})

/** Returns the ids of the checks that passed, each once. */
const passedIn = (checks: readonly Check[]): string[] =>
  [...new Set(checks.filter(({ status }) => status === 'SUCCESS').map(({ id }) => id))].sort()

test('skills scenarios that pass directly pass through a proxy and through a gateway of two servers', async () => {
  const a = await startSkillsServer({ files: buildFiles('refunds') })
  const b = await startSkillsServer({ files: buildFiles('returns') })
  const proxy = await startGateway({ role: 'proxy', backends: [{ name: 'a', url: a.url }] })
  const both = await startGateway({
    backends: [
      { name: 'a', url: a.url },
      { name: 'b', url: b.url },
    ],
  })
  try {
    const results = await runExtensionScenarios(
      AS_A_SERVER.flatMap((scenario) => [a, proxy, both].map(({ url }) => ({ url, scenario }))),
    )
    for (const [index, scenario] of AS_A_SERVER.entries()) {
      const [direct = [], ...through] = results.slice(3 * index, 3 * index + 3)
      assert.equal(listFailures(direct), [], scenario)
      const expected = passedIn(direct)
      assert.ok(expected.length > 2, `${scenario} checks something`)
      assert.is(through.length, 2)
      for (const checks of through) {
        assert.equal(listFailures(checks), [], scenario)
        assert.equal(passedIn(checks), expected, scenario)
      }
    }
  } finally {
    await Promise.all([both, proxy, a, b].map((one) => one.close()))
  }
})

const AS_A_CLIENT = [
  'sep-2640-client-no-prefetch',
  'sep-2640-client-verify-digest',
  'sep-2640-client-verify-size',
  'sep-2640-client-verify-frontmatter',
]

/** Starts a host that lists skills through a gateway, and also loads each of them if `loads` is true. */
async function driveHost(url: string, role: 'gateway' | 'proxy', loads: boolean): Promise<void> {
  const gateway = await startBefore(url, role)
  const client = new Client({ name: 'host', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })
  try {
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
    const skills = new SkillsClient(client)
    const { skills: listed } = await skills.list()
    for (const skill of loads ? listed : []) await skills.read(skill)
  } finally {
    await client.close()
    await gateway.close()
  }
}

for (const role of ['proxy', 'gateway'] as const)
  test(`a host behind a ${role} verifies what it reads, and the ${role} reads nothing ahead`, async () => {
    const [noPrefetch] = AS_A_CLIENT
    const results = await runClientScenarios(AS_A_CLIENT, async (url, _context, scenario) => {
      if (scenario === noPrefetch) return driveHost(url, role, false)
      // The client throws its findings.
      await driveHost(url, role, true).catch(() => {})
    })
    for (const scenario of AS_A_CLIENT) {
      const checks = results.get(scenario)
      assert.ok(checks, `${scenario} ran`)
      assert.equal(listFailures(checks), [], scenario)
      assert.ok(
        checks.some(({ status }) => status === 'SUCCESS'),
        `${scenario} checks something: ${JSON.stringify(checks)}`,
      )
    }
  })

/** The scenarios for tasks. The suite skips the one for notifications. */
const TASKS = [
  'tasks-lifecycle',
  'tasks-capability-negotiation',
  'tasks-wire-fields',
  'tasks-request-state-removal',
  'tasks-mrtr-input',
  'tasks-request-headers',
  'tasks-dispatch-and-envelope',
  'tasks-status-notifications',
  'tasks-required-task-error',
  'tasks-mrtr-composition',
]

test('every tasks scenario has the same checks directly, through a proxy and through a gateway of two servers', async () => {
  const server = await startTasksServer()
  const other = await startSkillsServer({ files: buildFiles('refunds') })
  const backends = [{ name: 'tasks', url: server.url }]
  const proxy = await startGateway({ role: 'proxy', backends })
  const both = await startGateway({
    backends: [...backends, { name: 'other', url: other.url }],
    // The tools keep the names that the suite expects.
    aggregation: { conflictResolution: 'priority', conflictResolutionConfig: { priorityOrder: ['tasks', 'other'] } },
  })
  try {
    const results = await runExtensionScenarios(
      TASKS.flatMap((scenario) => [server, proxy, both].map(({ url }) => ({ url, scenario }))),
    )
    for (const [index, scenario] of TASKS.entries()) {
      const [direct, ...through] = results.slice(3 * index, 3 * index + 3)
      assert.equal(listFailures(direct ?? []), [], scenario)
      assert.is(through.length, 2)
      for (const checks of through) assert.equal(statusesIn(checks), statusesIn(direct), scenario)
    }
  } finally {
    await Promise.all([both, proxy, other, server].map((one) => one.close()))
  }
})

const statusesIn = (checks: readonly Check[] = []): string[] => checks.map(({ id, status }) => `${id} ${status}`).sort()

test('every server scenario of an extension in the installed suite is named here', async () => {
  const names = await serverScenarios()
  assert.ok(names.length > 60, `${names.length}`)
  // The other scenarios run in conformance.test.ts, by revision.
  assert.equal(names.filter(isOfExtension).sort(), [...AS_A_SERVER, ...TASKS].sort())
})

test.run()
