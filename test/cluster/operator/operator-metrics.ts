/**
 * Compares the metrics of a running operator, in a real Prometheus, with the API server: its objects, and its audit log
 * of the operator's writes and of the refused ones.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { dashboards } from '../../../operator/deploy/dashboards.ts'
import { ruleGroups } from '../../../operator/deploy/monitoring.ts'
import { type PrometheusServer, startPrometheus } from '../../support/telemetry/prometheus-server.ts'
import { installWebhook } from '../support/admission.ts'
import { newCluster } from '../support/cluster.ts'
import { buildNamespace, gateway, group, type Manifest, manifest, server, telemetry } from '../support/manifests.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'

const cluster = newCluster()
const { kubectl } = cluster
let prometheus: PrometheusServer

/** The alert rules without their waiting times. */
const impatient = JSON.stringify({
  groups: ruleGroups.map(({ name, rules }) => ({ name, rules: rules.map((rule) => ({ ...rule, for: '0s' })) })),
})

const KINDS = { mcpg: 'MCPGroup', mcpserver: 'MCPServer', vmcp: 'VirtualMCPServer', mcpotel: 'MCPTelemetryConfig' }
// The gateway names a member that is not in the group, and serves the others.
const front = gateway('front', 'main')
front.spec['config'] = { aggregation: { tools: [{ workload: 'none' }] } }
const objects = [
  group(),
  telemetry('main'),
  telemetry('unused'),
  server('one', 'main'),
  server('two', 'main'),
  server('lost', 'main', 'no-such-group'),
  front,
]

test.before(async () => {
  await cluster.install()
  cluster.apply(buildNamespace('full'))
  // The quota forbids Services, so that the operator retries workloads that need one.
  const quota = {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'none', namespace: 'full' },
    spec: { hard: { 'count/services': '0' } },
  }
  cluster.apply(quota as Manifest)
  // The quota refuses nothing until its controller has seen it.
  const isEnforced = () => cluster.read('quota', 'none', 'full').status?.['hard'] !== undefined
  await eventually(isEnforced, 'the quota is in force', 180_000)
  const stuck = manifest('MCPServer', 'stuck', { image: 'x', transport: 'streamable-http' }, 'full')
  await cluster.startOperator((await installWebhook(cluster.plane)).options)
  cluster.apply(...objects, stuck)
  prometheus = await startPrometheus({ operator: new URL(cluster.operator.metrics).host }, impatient)
})
test.after(async () => {
  await prometheus?.close()
  await cluster.stop()
})

/** Series of a query as `label/… value`, sorted. */
async function counts(query: string, ...labels: readonly string[]): Promise<readonly string[]> {
  const series = await prometheus.query(query)
  return series.map(({ metric, value }) => `${labels.map((label) => metric[label]).join('/')} ${value[1]}`).sort()
}

const tally = (keys: readonly string[]): readonly string[] =>
  [...Map.groupBy(keys, (key) => key)].map(([key, all]) => `${key} ${all.length}`).sort()

/**
 * Waits until Prometheus returns the expected value. A scrape is up to a second old, and the operator keeps working.
 */
async function waitUntilEqual(
  what: string,
  exported: () => Promise<readonly string[]>,
  known: () => readonly string[],
) {
  let last: readonly (readonly string[])[] = []
  await eventually(
    async () => {
      const before = known()
      last = [await exported(), before]
      return before.length > 0 && JSON.stringify(last[0]) === JSON.stringify(before)
    },
    what,
    180_000,
  ).catch((error) => {
    assert.equal(last[0], last[1], what)
    throw error
  })
}

test('objects are counted by kind and readiness, as the API server has them', async () => {
  const readiness = () =>
    tally(
      Object.entries(KINDS).flatMap(([name, kind]) =>
        cluster
          .list(name, { allNamespaces: true })
          .map(
            ({ status }) => `${kind}/${status?.conditions?.find(({ type }) => type === 'Ready')?.status ?? 'Unknown'}`,
          ),
      ),
    )
  await waitUntilEqual(
    'objects',
    () => counts('sum by (kind, ready) (portico_operator_objects)', 'kind', 'ready'),
    readiness,
  )
  const all = await counts('sum by (kind) (portico_operator_objects)', 'kind')
  assert.equal(all, ['MCPGroup 1', 'MCPServer 4', 'MCPTelemetryConfig 2', 'VirtualMCPServer 1'])
})

test('problems of objects are counted by condition and reason', async () => {
  const labels = ['kind', 'condition', 'reason', 'severity']
  const readProblems = () => counts(`sum by (${labels}) (portico_operator_problems)`, ...labels)
  await waitUntilEqual('problems', readProblems, () => [
    'MCPServer/Ready/ChildRefused/error 1',
    'MCPServer/ReferencesResolved/ReferenceNotFound/error 1',
    'VirtualMCPServer/BackendNameWarning/NoSuchMember/warning 1',
  ])
})

test('requests are counted by verb and answer, as the API server’s audit log has them', async () => {
  const writes = { PATCH: ['patch'], DELETE: ['delete', 'deletecollection'] }
  const countAudited = () =>
    tally(
      cluster.plane
        .writes()
        .filter(({ user }) => user === OPERATOR_USER)
        .flatMap(({ verb, code }) => {
          const method = Object.entries(writes).find(([, verbs]) => verbs.includes(verb))?.[0]
          return method === undefined ? [] : [`${method}/${code}`]
        }),
    )
  const query = 'sum by (verb, code) (portico_operator_api_request_duration_seconds_count{verb=~"PATCH|DELETE"})'
  await waitUntilEqual('writes', () => counts(query, 'verb', 'code'), countAudited)
  assert.ok(
    countAudited().some((line) => line.startsWith('PATCH/403 ')),
    'those that were refused are among them',
  )
})

test('reconciles are counted by kind and result, and timed', async () => {
  const results = (kind: string) =>
    counts(`sum by (result) (portico_operator_reconciles_total{kind="${kind}"})`, 'result')
  const filters = ['a', 'b', 'c'].map((name) => manifest('MCPToolConfig', name, { toolsFilter: [name] }))
  cluster.apply(...filters)
  const still = 'changes(portico_operator_reconciles_total{kind="MCPToolConfig"}[10s]) == 0'
  const scrapes = 'count_over_time(portico_operator_reconciles_total{kind="MCPToolConfig"}[10s]) >= 5'
  await eventually(
    async () => (await prometheus.query(`${still} and ${scrapes}`)).length === 1,
    'they are as they should be',
    180_000,
  )
  const [before = ''] = await results('MCPToolConfig')
  const count = Number(before.split(' ')[1])
  assert.ok(before.startsWith('ok ') && count >= 3, before)
  // Nothing else refers to these objects, so that the deletion of each is one reconcile.
  await cluster.removeAndWait(
    'mcptoolconfig',
    cluster.list('mcptoolconfigs').map(({ metadata }) => metadata.name),
  )
  await waitUntilEqual(
    'three more',
    () => results('MCPToolConfig'),
    () => [`ok ${count + 3}`],
  )
  const listRefused = () =>
    cluster.plane
      .writes()
      .filter(({ user, namespace, code }) => user === OPERATOR_USER && namespace === 'full' && code === 403)
  // If something else triggers a reconcile, the operator does not resend a write that was refused a short time ago.
  await eventually(async () => {
    const again = (await results('MCPServer')).find((line) => line.startsWith('again '))
    return Number(again?.split(' ')[1]) >= listRefused().length && listRefused().length > 0
  }, 'those that were refused are tried again')
  const timed = 'sum by (kind) (portico_operator_reconcile_duration_seconds_count)'
  await eventually(async () => {
    const [durations, results] = await Promise.all([
      counts(timed, 'kind'),
      counts('sum by (kind) (portico_operator_reconciles_total)', 'kind'),
    ])
    return JSON.stringify(durations) === JSON.stringify(results) && durations.length >= Object.keys(KINDS).length
  }, 'each reconcile is timed')
})

test('metrics show the queue, the lease and the watches', async () => {
  await eventually(
    async () => JSON.stringify(await counts('portico_operator_queue_depth')) === '[" 0"]',
    'nothing waits',
  )
  // The failing object waits for its next try, or is being reconciled.
  const queueSize = 'portico_operator_queue_delayed + portico_operator_queue_working'
  await eventually(async () => Number((await prometheus.query(queueSize))[0]?.value[1]) >= 1, 'one is tried again')
  assert.equal(await counts('portico_operator_leading'), [' 1'])
  const lists = await counts('portico_operator_watch_lists_total{watch=~"mcpservers.*"}')
  assert.equal(lists, [' 1'])
})

const configTimes = () => counts('portico_operator_config_changed_timestamp_seconds', 'kind', 'config')
/** When each telemetry config changed last, by its status, in Unix seconds. */
const changeTimes = () =>
  new Map(
    cluster
      .list('mcpotel', { allNamespaces: true })
      .map(({ metadata: { namespace, name }, status }) => [
        `${namespace}/${name}`,
        Date.parse(status?.configHashTime ?? '') / 1000,
      ]),
  )
const knownTimes = () => {
  const times = [...changeTimes().values()]
  return [`MCPTelemetryConfig/newest ${Math.max(...times)}`, `MCPTelemetryConfig/oldest ${Math.min(...times)}`]
}
const change = (kind: string, name: string, spec: object) => cluster.mergePatch(kind, name, { spec })

test('metrics show when configs changed last, and which change is oldest', async () => {
  const before = changeTimes()
  // The status has whole seconds.
  const passed = (Math.max(...before.values()) + 1) * 1000
  await eventually(() => Date.now() > passed, 'another second')
  cluster.mergePatch('mcpotel', 'unused', { metadata: { labels: { a: 'b' } } })
  change('mcpotel', 'main', { openTelemetry: { tracing: { enabled: false } } })
  const changed = 'default/main'
  await eventually(() => changeTimes().get(changed) !== before.get(changed), 'the status has the time of the change')
  await waitUntilEqual('times', configTimes, knownTimes)
  const after = changeTimes()
  for (const times of [before, after]) assert.ok(times.delete(changed))
  assert.equal([...after], [...before], 'a label changes nothing')
})

test('rollouts are counted by cause', async () => {
  const readRollouts = () => counts('sum by (kind, cause) (portico_operator_rollouts_total) > 0', 'kind', 'cause')
  const all: string[] = []
  const expectRollouts = async (...lines: readonly string[]) => {
    all.push(...lines)
    await waitUntilEqual(lines.join(', '), readRollouts, () => all.toSorted())
  }
  assert.equal(await readRollouts(), [], 'a created object counts as no rollout')
  const secret = (value: string) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'token', namespace: 'default' },
    stringData: { it: value },
  })
  const oidc = manifest('MCPOIDCConfig', 'idp', { type: 'inline', inline: { issuer: 'https://idp.example' } })
  const sealed = server('sealed')
  sealed.spec['secrets'] = [{ name: 'token', key: 'it', targetEnvName: 'TOKEN' }]
  const guarded = server('guarded')
  guarded.spec['oidcConfigRef'] = { name: 'idp', audience: 'it' }
  cluster.apply(secret('a'), oidc, sealed, guarded)
  const names = ['sealed-mcp', 'guarded-mcp', 'one-mcp', 'two-mcp']
  await eventually(() => names.every((name) => cluster.exists('deployment', name)), 'the Deployments exist')

  change('mcpserver', 'one', { image: 'everything:other' })
  await expectRollouts('MCPServer/image 1')
  change('mcpserver', 'two', { args: ['--loud'] })
  await expectRollouts('MCPServer/spec 1')
  cluster.apply(secret('b'))
  await expectRollouts('MCPServer/secret 1')
  // The workload mounts this key.
  change('mcpoidcconfig', 'idp', { inline: { clientId: 'it', clientSecretRef: { name: 'token', key: 'it' } } })
  await expectRollouts('MCPServer/reference 1')
  kubectl(['set', 'image', 'deployment/front-vmcp', 'vmcp=evil:1'])
  await expectRollouts('VirtualMCPServer/edit 1')
  // Other managers may annotate a template, and scale.
  kubectl(['rollout', 'restart', 'deployment/front-vmcp'])
  cluster.patch('deployment', 'front-vmcp', { spec: { replicas: 3 } }, { subresource: 'scale' })
  change('vmcp', 'front', { podTemplateSpec: { spec: { priorityClassName: 'high' } } })
  await expectRollouts('VirtualMCPServer/spec 1')
})

test('no panel of the dashboard is empty, and the expected alerts fire', async () => {
  const panels = dashboards.find(({ name }) => name === 'operator')?.panels ?? []
  assert.ok(panels.length > 10)
  for (const { title, query } of panels) {
    const expression = query.replaceAll('$__rate_interval', '30s')
    await eventually(async () => (await prometheus.query(expression)).length > 0, `${title}: ${expression}`, 180_000)
  }
  for (const alert of ['PorticoObjectsNotReady', 'PorticoProblems', 'PorticoWarnings'])
    await eventually(async () => (await prometheus.firing()).includes(alert), `${alert} fires`)
  const firing = await prometheus.firing()
  const others = ['PorticoOperatorWithoutLeader', 'PorticoProblemSpreads', 'PorticoRolloutsRepeat']
  assert.equal(
    others.filter((name) => firing.includes(name)),
    [],
  )
  // Prometheus drops a scrape that takes longer than a second.
  await eventually(async () => (await prometheus.errors()).length === 0, 'scrapes succeed')
})

test('metrics attribute a rollout to a new operator version that renders differently', async () => {
  const times = knownTimes()
  const rolled = cluster.list('deployments', { allNamespaces: true }).length
  await cluster.operator.stop()
  await cluster.startOperator(['--image=portico:next'])
  const metrics = async () => (await fetch(cluster.operator.metrics)).text()
  await eventually(async () => {
    const found = [...(await metrics()).matchAll(/^portico_operator_rollouts_total\{(.*)\} ([1-9]\d*)$/gm)]
    assert.ok(found.every(([, labels]) => labels?.includes('cause="operator"')))
    return found.reduce((sum, [, , count]) => sum + Number(count), 0) === rolled
  }, 'all of them')
  const text = await metrics()
  for (const time of times) {
    const [, config = '', value] = /\/(\w+) (\d+)$/.exec(time) ?? []
    const line = text.split('\n').find((one) => /config_changed.*MCPTelemetryConfig/.test(one) && one.includes(config))
    assert.ok(line?.endsWith(` ${value}`), `${time}: ${line}`)
  }
})

test.run()
