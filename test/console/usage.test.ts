/** Shows usage from a real Prometheus that scraped the gateways of two teams, in a console that runs in a pod. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type UsageFacts, usageCsv, usageRows } from '../../console/facts/usage.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { eventually } from '../support/eventually.ts'
import { postModern } from '../support/gateway/post.ts'
import { type PrometheusServer, startPrometheus } from '../support/telemetry/prometheus-server.ts'
import { type ApiStandIn, startApiStandIn } from './api-stand-in.ts'
import { type PodConsole, startPodConsole } from './in-pod.ts'
import { clock, OpenConsole } from './support.ts'

/** The tool that each team calls. */
const TOOLS = { red: 'current_time', blue: 'convert_time' }
const TEAMS = ['red', 'blue'] as const
type Team = (typeof TEAMS)[number]

/** Returns a gateway with one server, in a team's namespace. */
const buildManifests = (team: string) => [
  `apiVersion: portico.dev/v1beta1\nkind: MCPGroup\nmetadata: {name: all, namespace: ${team}}\nspec: {}\n`,
  `apiVersion: portico.dev/v1beta1\nkind: MCPTelemetryConfig\nmetadata: {name: metrics, namespace: ${team}}\nspec: {prometheus: {enabled: true}}\n`,
  `apiVersion: portico.dev/v1beta1\nkind: VirtualMCPServer\nmetadata: {name: tools, namespace: ${team}}\nspec:\n  groupRef: {name: all}\n  telemetryConfigRef: {name: metrics}\n  incomingAuth: {type: anonymous}\n`,
  `apiVersion: portico.dev/v1beta1\nkind: MCPServer\nmetadata:\n  name: ${team}\n  namespace: ${team}\n  annotations: {portico.dev/local-command: ${JSON.stringify(clock)}}\nspec:\n  image: x/y:1.0.0\n  transport: streamable-http\n  groupRef: {name: all}\n`,
]

const buildGateway = (team: string) =>
  ({
    apiVersion: 'portico.dev/v1beta1',
    kind: 'VirtualMCPServer',
    metadata: { name: 'tools', namespace: team, uid: team },
    spec: { groupRef: { name: 'all' } },
  }) as unknown as KubernetesObject

let portico: OpenConsole
let prometheus: PrometheusServer
let api: ApiStandIn
let one: PodConsole
let cookie: string

interface Endpoint {
  readonly kind: string
  readonly namespace: string
  readonly url: string
  readonly admin: string
}
const buildEndpoint = (team: string): Endpoint =>
  (portico.line.endpoints as unknown as readonly Endpoint[]).find(
    ({ kind, namespace }) => kind === 'VirtualMCPServer' && namespace === team,
  ) as Endpoint

test.before(async () => {
  portico = await OpenConsole.start(TEAMS.flatMap(buildManifests).join('---\n'))
  prometheus = await startPrometheus(
    Object.fromEntries(TEAMS.map((team) => [team, new URL(buildEndpoint(team).admin).host])),
    'groups: []',
  )
  api = await startApiStandIn(TEAMS.map(buildGateway))
  api.reach = (token) => TEAMS.filter((team) => token === team)
  one = await startPodConsole(api.url, `metrics: {prometheusUrl: "${prometheus.url}"}\n`)
  cookie = await one.logIn('red')
})
test.after(async () => {
  await one?.close()
  await api?.close()
  await prometheus?.close()
  await portico?.[Symbol.asyncDispose]()
})

const call = async (team: Team, times: number) => {
  for (let count = 0; count < times; count++)
    await postModern(buildEndpoint(team).url, 'tools/call', { name: `${team}_${TOOLS[team]}`, arguments: {} })
}
const total = async (team: string) =>
  Number((await prometheus.query(`sum(portico_tool_calls_total{job="${team}"})`))[0]?.value[1] ?? 0)

const USAGE = '/ns/red/vmcp/tools/usage'
type Rows = readonly { readonly name: string; readonly calls: number }[]

test('33: usage by tool is the increase that Prometheus reports', async () => {
  // Increases count only after a series' first sample.
  for (const team of TEAMS) {
    await call(team, 1)
    await eventually('it is scraped', async () => (await total(team)) === 1)
    await call(team, 150)
    await eventually('all are scraped', async () => (await total(team)) === 151)
  }
  const increase = 'sum by (gen_ai_tool_name) (increase(portico_tool_calls_total{job="red"}[2591999s]))'
  // Both queries use the same second; a scrape may fall between them.
  await eventually('both report the same', async () => {
    const second = Math.floor(Date.now() / 1000)
    const { facts } = await one.json(USAGE, cookie)
    const expected = await prometheus.query(increase, second)
    if (Math.floor(Date.now() / 1000) !== second) return false
    assert.equal([facts.source, facts.missing], ['Prometheus', null])
    const rows = facts.rows as Rows
    const sums = expected.map(({ metric, value }) => [metric['gen_ai_tool_name'], Number(value[1])] as const)
    assert.equal(
      rows.map(({ name }) => name),
      ['current_time'],
    )
    assert.ok(Number(rows[0]?.calls) >= 100, JSON.stringify(rows))
    // Rows show whole calls.
    return sums.every(([name, sum]) => {
      const row = rows.find((one) => one.name === name)
      return row !== undefined && Math.abs(row.calls - sum) <= Math.max(0.51, sum / 100)
    })
  })
})

test('34: nobody gets series of a namespace that they may not read, whatever the query says', async () => {
  assert.is((await one.get('/ns/blue/vmcp/tools/usage', cookie)).status, 404)
  const hostile = [
    'ns=blue',
    'namespace=blue&name=tools',
    'service_namespace=blue',
    'by=tool%22%7D%20or%20portico_tool_calls_total%7Bjob%3D%22blue',
    'from=2026-01-01%22%5D%29%20or%20sum%28portico_tool_calls_total',
    'to=9999-01-01&from=0000-00-00',
    'query=portico_tool_calls_total&by=backend',
    'by=__proto__&from=constructor',
  ]
  for (const query of hostile)
    for (const path of [`${USAGE}?${query}`, `/usage?${query}`]) {
      const text = await (await one.get(path, cookie)).text()
      assert.not.match(text, 'convert_time', path)
      const json = JSON.stringify(await one.json(path, cookie))
      assert.not.match(json, 'convert_time', path)
    }
  const odd = ['/ns/red%22%7D%20or%20%7Bx%3D%22/vmcp/tools/usage', '/ns/blue%2F..%2Fred/vmcp/tools/usage']
  for (const path of odd) assert.is((await one.get(path, cookie)).status, 404, path)
  const blue = await one.logIn('blue')
  await eventually('each team sees its own usage', async () => {
    const { facts } = await one.json('/ns/blue/vmcp/tools/usage', blue)
    return facts.rows.some(({ name }: { name: string }) => name === 'convert_time')
  })
})

test('37: without Prometheus the page works and says so', async () => {
  await prometheus.close()
  const page = await one.get(USAGE, cookie)
  assert.is(page.status, 200)
  const text = await page.text()
  assert.match(text, 'Prometheus can’t be asked')
  assert.match(text, 'name="from"')
  assert.not.match(text, 'No call in this time')
  const { facts } = await one.json(USAGE, cookie)
  assert.equal([facts.rows, facts.source], [[], 'Prometheus'])
  assert.match(facts.missing, 'Prometheus can’t be asked')
  assert.is((await one.get('/usage', cookie)).status, 200)
})

test('36: a cell of CSV that a spreadsheet would take for a formula is a text', () => {
  for (const begin of ['=', '+', '-', '@', '\t', '\r']) {
    const rows = [{ name: `${begin}1+1"`, calls: 1, errors: 0, denied: null }]
    const csv = usageCsv({ by: 'tool', rows } as unknown as UsageFacts)
    assert.is(csv, `tool,calls,errors,denied\r\n"'${begin}1+1""",1,0,\r\n`)
  }
})

test('tools of the same name at two backends are two rows, and others have no backend', () => {
  const sample = (tool: string, backend: string, value: number) => ({
    labels: { gen_ai_tool_name: tool, portico_backend: backend },
    value,
  })
  const rows = usageRows(
    [sample('search', 'github', 3), sample('search', 'jira', 2), sample('merge', 'github', 1)],
    'tool',
  )
  assert.equal(
    rows.map(({ name, calls }) => [name, calls]),
    [
      ['search of github', 3],
      ['search of jira', 2],
      ['merge', 1],
    ],
  )
  const odd = usageRows([sample('search', '__proto__', 1), sample('__proto__', 'a', 1)], 'backend')
  assert.equal(odd.map(({ name }) => name).sort(), ['__proto__', 'a'])
})

test.run()
