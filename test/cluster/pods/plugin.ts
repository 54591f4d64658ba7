/** Runs the kubectl plugin as a separate process against a real API server and a running gateway. */
import { execFile } from 'node:child_process'
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { serveConsole } from '../../../console/serve.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { AUDIENCE, GuardedGateway } from '../../support/gateway/guarded.ts'
import { type McpTestServer, startMcpServer } from '../../support/servers/dual-server.ts'
import { newCluster } from '../support/cluster.ts'
import { kubectlStandIn } from '../support/kubectl-stand-in.ts'
import { group, manifest, server, serviceAccount } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { givePodAddress, type PodAddress } from '../support/pod-address.ts'

const programs = temporaryFolder()

/** The folder with the programs: an installation of this test run's bundle, or the checkout if there is no bundle. */
function installedPrograms(): string {
  const root = join(import.meta.dirname, '../../..')
  const bundle = process.env['PORTICO_TEST_BUNDLE']
  if (bundle === undefined) return join(root, 'bin')
  cpSync(join(root, 'bin'), join(programs.path, 'bin'), { recursive: true })
  symlinkSync(dirname(bundle), join(programs.path, 'dist'))
  symlinkSync(join(root, 'node_modules'), join(programs.path, 'node_modules'))
  return join(programs.path, 'bin')
}

const bin = installedPrograms()
const PLUGIN = join(bin, 'kubectl-portico')
const PORTICO = join(bin, 'portico')
const POLICIES = ['@id("engineers") permit(principal in Group::"eng", action, resource);']

const cluster = newCluster()
let backend: McpTestServer
let guarded: GuardedGateway
let pod: PodAddress
let path: string

interface Outcome {
  readonly code: number
  readonly out: string
  readonly err: string
}

function plugin(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Outcome> {
  return new Promise((resolve) => {
    const all = {
      ...process.env,
      PATH: `${path}${delimiter}${process.env['PATH']}`,
      KUBECONFIG: cluster.plane.kubeconfig,
      ...env,
    }
    execFile(PLUGIN, argv, { env: all }, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, out, err }),
    )
  })
}

test.before(async () => {
  await cluster.install()
  const objects = [
    group(),
    server('web'),
    manifest('VirtualMCPServer', 'front', { groupRef: { name: 'tools' }, incomingAuth: { type: 'anonymous' } }),
    manifest('MCPRemoteProxy', 'front', { remoteUrl: 'https://mcp.example/mcp', toolConfigRef: { name: 'gone' } }),
  ]
  cluster.apply(...objects)
  await cluster.startOperator()
  // After the cluster's set-up, which keeps this process too busy to answer calls between these two.
  backend = await startMcpServer()
  guarded = await GuardedGateway.start(
    [{ name: 'web', url: backend.url }],
    { policies: POLICIES },
    { allowedHosts: ['vmcp-front'] },
  )
  pod = await givePodAddress(
    cluster.plane,
    'front',
    87,
    () => guarded.gateway.adminUrl,
    () => guarded.gateway.base,
  )
  path = kubectlStandIn(cluster.plane.directory, pod.address)
  await eventually(
    async () => (await guarded.gateway.status()).backends[0]?.health === 'healthy',
    'the backend is known',
  )
  await eventually(() => cluster.read('mcprp', 'front').status?.message, 'all are reconciled')
})

test.after(async () => {
  await cluster.stop()
  pod?.close()
  await guarded?.close()
  await backend?.close()
})

test('status shows workloads with their dependencies and problems', async () => {
  const { code, out, err } = await plugin(['status'])
  assert.is(code, 1, err)
  const tree = out.slice(out.indexOf('VirtualMCPServer default/front'))
  assert.match(tree, /└─ MCPGroup tools: ready\n +└─ MCPServer web: not ready: Progressing/)
  assert.match(tree, /^VirtualMCPServer default\/front: /)
  assert.match(tree, /url: http:\/\/vmcp-front\.default\.svc\.cluster\.local:4483\/mcp/)
  assert.match(out, /MCPRemoteProxy default\/front: not ready: ReferenceNotFound: MCPToolConfig "gone" is missing/)
  assert.match(out, /MCPToolConfig gone: missing/)
  assert.match(out, /ReferencesResolved: ReferenceNotFound/)
})

test('status of one workload, as JSON', async () => {
  const { out } = await plugin(['status', 'vmcp/front', '--output=json'])
  const trees = JSON.parse(out)
  assert.is(trees.length, 1)
  assert.match(trees[0].text, /^VirtualMCPServer default\/front/)
})

test('status of one workload shows how its pod sees the backends', async () => {
  const { out } = await plugin(['status', 'VirtualMCPServer/front'])
  assert.match(out, /└─ MCPGroup tools: ready\n +└─ MCPServer web: [^\n]*; healthy, MCP [^,]+, \d+ tools\n/)
  assert.match((await plugin(['status', 'mcpserver/web'])).out, /no pod runs/)
})

interface StatusBranch {
  readonly text: string
  readonly object?: { readonly kind: string; readonly name: string }
  readonly branches: readonly StatusBranch[]
}

/** Returns the lines of a tree about objects. For several workloads, the command does not poll pods. */
const objectLines = ({ text, object, branches }: StatusBranch): readonly string[] => [
  ...(object === undefined && !/^\w+ [\w-]+: missing$/.test(text) ? [] : [text.split('; ')[0] as string]),
  ...branches.flatMap(objectLines),
]

test('status and the console name the same objects, with the same states', async () => {
  const { plane } = cluster
  const [apiVersion, apiGroup] = ['rbac.authorization.k8s.io/v1', 'rbac.authorization.k8s.io']
  const subjects = [{ kind: 'ServiceAccount', name: 'looker', namespace: 'default' }]
  const buildBinding = (name: string, role: string) => ({
    ...{ apiVersion, kind: 'ClusterRoleBinding', metadata: { name }, subjects },
    roleRef: { apiGroup, kind: 'ClusterRole', name: role },
  })
  const rules = [{ apiGroups: ['portico.dev'], resources: ['*'], verbs: ['get', 'list'] }]
  const reader = { apiVersion, kind: 'ClusterRole', metadata: { name: 'reader' }, rules }
  plane.apply(serviceAccount('looker'), reader, buildBinding('looker', 'admin'), buildBinding('reader', 'reader'))
  const looker = 'system:serviceaccount:default:looker'
  await eventually(() => plane.may(looker, 'list', 'vmcp') && plane.may(looker, 'list', 'pods'), 'the rights apply')
  const token = plane.token('looker', 'default')
  const configFile = join(programs.path, 'console.yaml')
  const caFile = join(plane.directory, 'certs', 'apiserver.crt')
  const config = {
    publicUrl: 'http://127.0.0.1:4480',
    login: { proxy: { trustedProxies: ['127.0.0.0/8'] } },
    kubernetes: { server: plane.server, caFile },
  }
  writeFileSync(configFile, JSON.stringify(config))
  const log = () => pino({ level: 'silent' })
  const served = await serveConsole({ configFile, listen: '127.0.0.1:0', log, environment: {} })
  try {
    const headers = { 'x-forwarded-id-token': token, accept: 'application/json' }
    const facts = async (path: string) => {
      const answer = await fetch(served.url + path, { headers })
      assert.is(answer.status, 200, path)
      return ((await answer.json()) as { facts: Record<string, unknown> }).facts
    }
    const trees = JSON.parse((await plugin(['status', '--output=json'])).out) as readonly StatusBranch[]
    const { rows } = (await facts('/workloads')) as { rows: readonly { name: string; href: string; state: string }[] }
    const outputs = await Promise.all(
      rows.map(async ({ href, state }) => {
        const one = (await facts(href)) as { tree: StatusBranch; state: string }
        assert.is(one.state, state, href)
        return one.tree
      }),
    )
    const lines = (list: readonly StatusBranch[]) => list.map(objectLines).sort()
    assert.is(trees.length, 3)
    assert.equal(lines(outputs), lines(trees))
  } finally {
    await served.close()
  }
})

test('an ambiguous name asks which workload is meant', async () => {
  const { code, err } = await plugin(['status', 'front'])
  assert.is(code, 2)
  assert.match(err, /say which: MCPRemoteProxy\/front or VirtualMCPServer\/front/)
})

test('a workload that does not exist and a kind without pods are errors', async () => {
  const gone = await plugin(['tools', 'gone'])
  assert.equal([gone.code, gone.err], [1, 'portico: no workload gone in namespace default\n'])
  assert.is((await plugin(['tools', 'mcpgroup/tools'])).code, 2)
  assert.is((await plugin(['status', '--context=nowhere'])).code, 2)
})

test('tools lists the tools that the caller of the token sees', async () => {
  const token = await guarded.idp.mint({ aud: AUDIENCE, sub: 'eve', groups: ['eng'] })
  const result = await plugin(['tools', 'vmcp/front'], { PORTICO_TOKEN: token })
  assert.is(result.code, 0, result.err)
  assert.match(result.out, /^NAME +DESCRIPTION\n/)
  assert.match(result.out, /\nweb_echo /)
  const listed = await plugin(['tools', 'vmcp/front', '--output=json'], {
    PORTICO_TOKEN: token,
  })
  assert.ok(JSON.parse(listed.out).some(({ name }: { name: string }) => name === 'web_echo'))
  const refused = await plugin(['tools', 'vmcp/front'])
  assert.is(refused.code, 1)
  assert.match(refused.err, /HTTP 401 \(Bearer /)
})

test('whoami shows the claims of an accepted token', async () => {
  const file = join(cluster.plane.directory, 'token')
  writeFileSync(file, await guarded.idp.mint({ aud: AUDIENCE, sub: 'eve', groups: ['eng'] }))
  const { code, out, err } = await plugin(['whoami', 'vmcp/front', `--token-file=${file}`])
  assert.is(code, 0, err)
  assert.match(out, /^the token is accepted; \d+ tools are shown\n/)
  assert.match(out, /\n {2}sub: "eve"\n/)
  const other = await guarded.idp.mint({ aud: 'https://elsewhere.example', sub: 'eve' })
  assert.is((await plugin(['whoami', 'vmcp/front'], { PORTICO_TOKEN: other })).code, 1)
})

test('explain asks the gateway that runs', async () => {
  const caller = join(cluster.plane.directory, 'caller.json')
  writeFileSync(caller, JSON.stringify({ sub: 'eve', groups: ['eng'] }))
  const allowed = await plugin(['explain', 'vmcp/front', '--tool=web_echo', `--caller=${caller}`])
  assert.is(allowed.code, 0, allowed.err)
  assert.match(allowed.out, /^VirtualMCPServer default\/front: allowed: [^\n]*\n {2}permit: [^\n]*\(engineers\)/)
  const denied = await plugin(['explain', 'vmcp/front', '--tool=none'])
  assert.is(denied.code, 1)
  assert.match(denied.out, /: denied: /)
  assert.match(denied.err, /the workload has no tool none/)
})

test('render prints the children of a workload in the cluster', async () => {
  const { code, out } = await plugin(['render', 'vmcp/front'])
  assert.is(code, 0)
  assert.match(out, /^apiVersion: v1\nkind: ConfigMap\n/)
  assert.match(out, /\nkind: Deployment\n/)
  const result = await plugin(['render', 'mcprp/front'])
  assert.equal([result.code, result.out], [1, ''])
  assert.match(result.err, /nothing is rendered: ReferenceNotFound: MCPToolConfig "gone" is missing/)
})

test('logs shows the data plane’s logs of all pods, by kubectl', async () => {
  const selector = '--selector=app.kubernetes.io/instance=front,app.kubernetes.io/name=virtualmcpserver'
  const { code, out } = await plugin(['logs', 'vmcp/front', '--since=10m'])
  assert.is(code, 0)
  const expected = [
    'logs',
    '--namespace=default',
    selector,
    '--container=vmcp',
    '--tail=200',
    '--since=10m',
    '--prefix',
  ]
  assert.equal(out.trim().split('\n'), expected)
  const server = await plugin(['logs', 'web', '--server', '-n', 'default'])
  assert.match(server.out, /--container=mcp\n/)
})

test('portico pin writes what a running gateway reports for an entry, and diff --pins compares it', async () => {
  using folder = temporaryFolder()
  writeFileSync(
    join(folder.path, 'web.json'),
    JSON.stringify(
      manifest('MCPServerEntry', 'web', {
        remoteUrl: 'https://mcp.example/mcp',
        transport: 'streamable-http',
        groupRef: { name: 'tools' },
      }),
    ),
  )
  const portico = (...argv: readonly string[]) =>
    new Promise<Outcome>((resolve) => {
      const env = { ...process.env, PATH: `${path}${delimiter}${process.env['PATH']}` }
      const args = [...argv, folder.path, '--kubeconfig', cluster.plane.kubeconfig]
      execFile(PORTICO, args, { env }, (error, out, err) => resolve({ code: error ? Number(error.code) : 0, out, err }))
    })
  const pinned = await portico('pin')
  assert.is(pinned.code, 0, pinned.err)
  const file = readFileSync(join(folder.path, 'pins', 'mcpserverentry-web.yaml'), 'utf8')
  assert.match(file, /kind: MCPServerEntry\n {4}name: web\n/)
  assert.match(file, /- name: echo\n {6}digests:\n {8}- sha256:[0-9a-f]{64}\n/)
  const [same, check] = [await portico('diff', '--pins'), await portico('pin', '--check')]
  assert.equal([same.code, same.out, check.code], [0, '', 0], same.err)
  writeFileSync(
    join(folder.path, 'pins', 'mcpserverentry-web.yaml'),
    file.replace('sha256:', 'sha256:0').replace(/(sha256:0[0-9a-f]{63})[0-9a-f]/, '$1'),
  )
  assert.is((await portico('diff', '--pins')).code, 1)
})

test.after(() => programs[Symbol.dispose]())

test.run()
