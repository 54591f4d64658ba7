/** `portico diff` and `portico migrate` against a real API server, with an operator at work. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { dispatch } from '../../../cli/dispatch.ts'
import { newCluster } from '../support/cluster.ts'
import { gateway, group, type Manifest, manifest, server, telemetry, yaml } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const cluster = newCluster()
const { kubectl } = cluster

async function portico(...argv: string[]) {
  const outcome = { code: 0, out: '', err: '' }
  const args = argv.includes('--kubeconfig') ? argv : [...argv, '--kubeconfig', cluster.plane.kubeconfig]
  outcome.code = await dispatch(args, {
    out: (text) => {
      outcome.out += text
    },
    err: (line) => {
      outcome.err += `${line}\n`
    },
    env: {},
    stop: AbortSignal.abort(),
  })
  return outcome
}

function file(...manifests: Manifest[]): string {
  const path = join(cluster.plane.directory, 'manifests.yaml')
  writeFileSync(path, yaml(...manifests))
  return path
}
const titles = (out: string) => out.split('\n').filter((line) => line.startsWith('+++ ') || line.startsWith('--- '))
const versions = () =>
  cluster
    .list('configmaps,deployments,services')
    .map(({ metadata }) => metadata.resourceVersion)
    .join()

const OBJECTS = [group(), telemetry('main'), server('one', 'main'), gateway('front', 'main')]
const OTHER = {
  ...telemetry('main').spec,
  openTelemetry: { ...(telemetry('main').spec['openTelemetry'] as object), endpoint: 'https://other.example:4318' },
}

test.before(async () => {
  await cluster.start()
  // kubectl adds this annotation, not the author.
  kubectl(['apply', '-f', file(...OBJECTS)])
  const listChildren = () =>
    cluster.list('deployments,statefulsets', { labels: 'app.kubernetes.io/managed-by=portico' })
  await eventually(() => listChildren().length === 2, 'the children are there')
  await waitUntilStill(versions)
})
test.after(() => cluster.stop())

test('diff shows nothing for manifests that are already applied', async () => {
  const { code, out, err } = await portico('diff', file(...OBJECTS))
  assert.is(out, '')
  assert.is(code, 0, err)
})

test('diff of a changed config shows the change of each object that depends on it, and writes nothing', async () => {
  const before = versions()
  const { code, out } = await portico('diff', file(manifest('MCPTelemetryConfig', 'main', OTHER)))
  assert.is(code, 1)
  assert.match(out, /^-.*otel\.example:4318/m)
  assert.match(out, /^\+.*other\.example:4318/m)
  const changed = titles(out).filter((title) => title.startsWith('+++ '))
  assert.ok(changed.some((title) => title.startsWith('+++ new/ConfigMap/default/one-')))
  assert.ok(changed.some((title) => title.startsWith('+++ new/ConfigMap/default/front-')))
  assert.not.match(out, /managedFields|resourceVersion|applied-hash/)
  assert.is(versions(), before)
})

test('diff shows objects that would be created, also in a namespace that does not exist, and objects that would be deleted', async () => {
  const fresh = manifest('MCPRemoteProxy', 'fresh', { remoteUrl: 'https://mcp.example/mcp' }, 'nowhere')
  const { code, out } = await portico('diff', file(fresh))
  assert.is(code, 1)
  assert.ok(titles(out).includes('--- /dev/null') && titles(out).includes('+++ new/Deployment/nowhere/fresh-mcprp'))
  const stdio = { ...server('one', 'main'), spec: { ...server('one', 'main').spec, transport: 'stdio' } }
  const replaced = await portico('diff', file(stdio))
  assert.is(replaced.code, 1)
  assert.ok(
    titles(replaced.out).some((title) => title === '+++ /dev/null'),
    replaced.out,
  )
})

test('diff names a missing reference and says that what runs is kept', async () => {
  const { code, out, err } = await portico('diff', file(gateway('front', 'absent')))
  assert.is(code, 0)
  assert.is(out, '')
  assert.match(err, /VirtualMCPServer\/default\/front: the running children would stay as they are: .*absent/)
})

test('diff exits with 1 for differences and with 2 for failures', async () => {
  const wrong = { ...gateway('front'), spec: { groupRef: 1 } }
  const invalid = await portico('diff', file(wrong as never))
  assert.is(invalid.code, 2)
  assert.match(invalid.err, /error: \/spec\/groupRef/)
  const stranger = cluster.plane.kubeconfigFor('stranger', 'nobody')
  const refused = await portico('diff', file(group()), '--kubeconfig', stranger)
  assert.is(refused.code, 2)
  assert.match(refused.err, /^portico: .*Unauthorized/)
})

test('live objects are migrated to another group, as their author wrote them', async () => {
  const { code, out, err } = await portico('migrate', '--from', 'portico.dev', '--to', 'mcp.example.org')
  assert.is(code, 0, err)
  assert.match(err, /4 objects from portico\.dev to mcp\.example\.org; 0 parts/)
  const objects = parseAllDocuments(out).map((document) => document.toJS())
  const found = objects.find(({ kind }) => kind === 'MCPServer')
  assert.equal(Object.keys(found), ['apiVersion', 'kind', 'metadata', 'spec'])
  assert.is(found.apiVersion, 'mcp.example.org/v1beta1')
  assert.equal(found.metadata, { name: 'one', namespace: 'default' })
  assert.ok(
    objects.findIndex(({ kind }) => kind === 'MCPServer') > objects.findIndex(({ kind }) => kind === 'MCPGroup'),
  )
})

test.run()
