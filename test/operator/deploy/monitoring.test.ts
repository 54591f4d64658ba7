/**
 * Runs the dashboards and alerts in a real Prometheus that scraped a gateway, a registry and the metrics of an
 * operator: no panel is empty, each rule is evaluated over series that exist, and one alert fires.
 */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, parseAllDocuments } from 'yaml'
import { listenAdmin } from '../../../dataplane/server/listen/admin.ts'
import type { Listener } from '../../../dataplane/server/listen/listen.ts'
import { dashboards } from '../../../operator/deploy/dashboards.ts'
import { ruleGroups } from '../../../operator/deploy/monitoring.ts'
import { KeyedQueue } from '../../../operator/runtime/queue/queue.ts'
import { startMetrics } from '../../../operator/runtime/report/metrics.ts'
import { Rollouts } from '../../../operator/runtime/report/rollouts.ts'
import { eventually } from '../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../support/gateway/gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import { startRegistry, type TestRegistry } from '../../support/registry/registry.ts'
import { answer, type RawServer, startRawServer, tool } from '../../support/servers/raw-server.ts'
import { type PrometheusServer, ruleProblems, startPrometheus } from '../../support/telemetry/prometheus-server.ts'

const folder = new URL('../../../operator/deploy/monitoring/', import.meta.url).pathname
const read = (name: string) => readFileSync(folder + name, 'utf8')

let backend: RawServer
let gateway: GatewayUnderTest
let registry: TestRegistry
let operator: Listener
let metrics: ReturnType<typeof startMetrics>
let prometheus: PrometheusServer | undefined

/** The rules without their waiting times. */
const impatient = JSON.stringify({
  groups: ruleGroups.map(({ name, rules }) => ({ name, rules: rules.map((rule) => ({ ...rule, for: '0s' })) })),
})

const config = () => ({
  role: 'proxy' as const,
  backends: [{ name: 'it', url: backend.url }],
  telemetry: { prometheus: { enabled: true } },
  authz: {
    policies: [
      'permit(principal, action, resource);',
      'forbid(principal, action == Action::"call_tool", resource == Tool::"secret");',
    ],
  },
})

test.before(async () => {
  backend = await startRawServer({
    era: 'modern',
    tools: [tool('good'), tool('bad'), tool('secret')],
    call: (request) =>
      request.message.params?.['name'] === 'good'
        ? answer(request, '{"resultType":"complete","content":[]}')
        : `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"error":{"code":-32000,"message":"no"}}`,
  })
  gateway = await startGateway(config())
  registry = await startRegistry(
    { own: '{"servers":[]}', broken: '{' },
    { telemetry: { prometheus: { enabled: true } } },
  )
  const watch = { name: 'mcpservers', metrics: { lists: 1, watches: 1, failures: 1, events: 1, lastSeen: Date.now() } }
  const object = {
    kind: 'MCPServer',
    status: { conditions: [{ type: 'Ready', status: 'False', reason: 'PodsNotReady', message: 'x' }] },
  }
  // Enough objects for a problem that spreads.
  const more = Array.from({ length: 5 }, () => object)
  const warned = {
    kind: 'VirtualMCPServer',
    status: { conditions: [{ type: 'StorageWarning', status: 'True', reason: 'Lost', message: 'x' }] },
  }
  const changed = {
    kind: 'MCPToolConfig',
    metadata: { creationTimestamp: '2026-01-01T00:00:00Z' },
    status: { configHash: 'sha256:0', configHashTime: new Date().toISOString() },
  }
  metrics = startMetrics({
    queue: new KeyedQueue(),
    watches: { metrics: [watch] } as never,
    rollouts: new Rollouts({ group: 'portico.dev', image: 'x', findOwner: () => undefined }),
    objects: () => [...more, warned, changed] as never,
    leading: () => true,
  })
  metrics.reconciled('MCPServer', 'error', 0.2)
  metrics.reviewed('MCPServer', 'warned')
  metrics.asked('PATCH', '200', 0.01)
  operator = await listenAdmin('127.0.0.1:0', {
    ready: () => true,
    status: () => ({}),
    version: { version: '1', node: '24' },
    metrics: (accept) => metrics.text({ 'service.name': 'portico-operator' }, accept),
  })
})
test.after(async () => {
  await prometheus?.close()
  metrics.close()
  await operator.close()
  await registry.close()
  await gateway.close()
  await backend.close()
})

test('promtool finds nothing wrong with the rules that are in the files', async () => {
  const rule = parse(read('rules.yaml'))
  assert.equal(rule.spec.groups, ruleGroups)
  assert.is(await ruleProblems(JSON.stringify({ groups: rule.spec.groups })), '')
  assert.is.not(await ruleProblems('groups: [{name: a, rules: [{alert: b, expr: "sum("}]}]'), '')
})

test('kustomize finds the files to add', () => {
  const { resources, configMapGenerator } = parse(read('kustomization.yaml'))
  for (const name of resources) assert.ok(parseAllDocuments(read(name)).length > 0)
  const files = configMapGenerator.map(({ files: [file] }: { files: string[] }) => file?.split('=')[1])
  assert.equal(
    files,
    dashboards.map(({ name }) => `dashboard-${name}.json`),
  )
})

test('no panel is empty, no rule reads a missing metric, and an alert fires', async () => {
  const resolveAddress = (url: string) => new URL(url).host
  const targets = {
    gateway: resolveAddress(gateway.adminUrl),
    registry: resolveAddress(registry.adminUrl),
    operator: resolveAddress(operator.url),
  }
  await eventually('the tools are there', async () => (await gateway.status()).backends[0]?.tools === 3)
  const server = await startPrometheus(targets, impatient)
  prometheus = server
  const drive = async () => {
    for (const name of ['good', 'bad', 'secret']) await postModern(gateway.url, 'tools/call', { name })
    await registry.get('/servers')
    await registry.get('/servers?limit=0')
  }
  await drive()
  const queries = dashboards.flatMap(({ name }) => {
    const { panels } = JSON.parse(read(`dashboard-${name}.json`))
    return panels.flatMap((panel: { title: string; targets: { expr: string }[] }) =>
      panel.targets.map(({ expr }) => ({
        what: `${name}: ${panel.title}`,
        query: expr.replaceAll('$__rate_interval', '30s'),
      })),
    )
  })
  assert.ok(queries.length > 30)
  const isEmpty = async (query: string) => (await server.query(query)).length === 0
  // A rate needs two samples of each series.
  const since = Date.now() / 1000
  await eventually('all have been scraped three times since', async () => {
    const [counted] = await server.query(`min(timestamp(up)) > ${since} and min(count_over_time(up[1m])) >= 3`)
    return counted !== undefined
  })
  await drive()
  for (const { what, query } of queries) await eventually(`${what}: ${query}`, async () => !(await isEmpty(query)))
  // A scrape that takes longer than one second is lost.
  await eventually('scrapes succeed', async () => (await server.errors()).length === 0)

  for (const { alert, expr } of ruleGroups.flatMap(({ rules }) => rules)) {
    await server.query(expr)
    const names = expr.replaceAll(/by \([^)]*\)|\{[^}]*\}/g, '').match(/\b(?:portico|mcp)_[a-z_]+/g) ?? []
    assert.ok(names.length > 0, alert)
    for (const name of names) await eventually(`${alert}: ${name}`, async () => !(await isEmpty(name)))
  }

  assert.not.ok((await server.firing()).includes('PorticoConfigRefused'))
  await gateway.configure('{"colour":"blue"}')
  const problems = ['PorticoObjectsNotReady', 'PorticoProblems', 'PorticoProblemSpreads', 'PorticoWarnings']
  for (const name of ['PorticoConfigRefused', ...problems])
    await eventually(`${name} fires`, async () => (await server.firing()).includes(name))
  const firing = await server.firing()
  for (const name of ['PorticoPodTemplatesEdited', 'PorticoRolloutsRepeat', 'PorticoConfigsKeepChanging'])
    assert.not.ok(firing.includes(name), name)
})

test.run()
