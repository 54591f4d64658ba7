import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { allowed, forbidden, type PodCase } from '../../support/operator/pod-security-corpus.ts'
import { kubernetes, minorVersion } from '../support/binary.ts'
import { newCluster } from '../support/cluster.ts'
import { buildNamespace, manifest } from '../support/manifests.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'

const cluster = newCluster()
const { apply, condition, exists, read } = cluster

const findReady = (kind: string, name: string) => condition(kind, name, 'Ready')
const waitForTaken = (kind: string, name: string) =>
  eventually(
    () => findReady(kind, name)?.reason === 'NameTaken' && findReady(kind, name),
    `NameTaken of ${kind} ${name}`,
  )

const stdio = (name: string) => manifest('MCPServer', name, { image: 'time:test', transport: 'stdio' })

/** Returns the operator's writes of objects of one name. */
const listWrites = (name: string) =>
  cluster.plane
    .writes()
    .filter(({ user, name: of, code }) => user === OPERATOR_USER && of === name && code < 300)
    .map(({ verb, resource }) => `${verb} ${resource}`)

const template = (name: string) => ({
  metadata: { labels: { app: name } },
  spec: { containers: [{ name: 'mcp', image: 'theirs:1' }] },
})

test.before(() => cluster.start())
test.after(() => cluster.stop())

test('no right is granted while an object of somebody else has the name of a child', async () => {
  const theirs = {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'ledger-mcp', namespace: 'default' },
    spec: { replicas: 1, selector: { matchLabels: { app: 'ledger' } }, template: template('ledger') },
  }
  apply(theirs)
  apply(stdio('ledger'))
  const { message } = await waitForTaken('mcpserver', 'ledger')
  assert.match(message, 'StatefulSet "ledger-mcp" belongs to somebody else')
  for (const kind of ['role', 'rolebinding', 'serviceaccount', 'networkpolicy'])
    assert.not(exists(kind, 'ledger-mcp'), `${kind} ledger-mcp`)
  assert.equal(listWrites('ledger-mcp'), [], 'no right was given for a moment')
})

test('no right is granted while the pod that the Role would name belongs to somebody else', async () => {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'vault-mcp-0', namespace: 'default' },
    spec: template('vault').spec,
  }
  apply(pod)
  apply(stdio('vault'))
  const { message } = await waitForTaken('mcpserver', 'vault')
  assert.match(message, 'Pod "vault-mcp-0" belongs to somebody else')
  assert.equal(listWrites('vault-mcp'), [])
})

test('rights are withdrawn when somebody else’s object takes the place of the pods', async () => {
  apply(stdio('clock'))
  await eventually(() => exists('rolebinding', 'clock-mcp'), 'the rights exist')
  cluster.patch('statefulset', 'clock-mcp', { spec: { replicas: 0 } }, { subresource: 'scale' })
  await cluster.operator.stop()
  await cluster.removeAndWait('statefulset', ['clock-mcp'])
  const theirs = {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'clock-mcp', namespace: 'default' },
    spec: { replicas: 1, selector: { matchLabels: { app: 'clock' } }, template: template('clock') },
  }
  apply(theirs)
  await cluster.startOperator()
  await waitForTaken('mcpserver', 'clock')
  await eventually(
    () => !exists('role', 'clock-mcp') && !exists('rolebinding', 'clock-mcp'),
    'the rights are withdrawn',
  )
})

test('a server whose names are free gets its rights after its pods', async () => {
  apply(stdio('free'))
  await eventually(() => exists('rolebinding', 'free-mcp'), 'the rights exist')
  // The audit log lags behind the answer.
  await eventually(() => listWrites('free-mcp').includes('patch rolebindings'), 'the audit log has all of them')
  const order = listWrites('free-mcp')
  assert.ok(order.indexOf('patch statefulsets') < order.indexOf('patch roles'), order.join(', '))
})

test('no right is granted while a child of the workload is refused', async () => {
  const quota = {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'none', namespace: 'default' },
    spec: { hard: { 'count/statefulsets.apps': '0' } },
  }
  apply(quota)
  await eventually(() => read('quota', 'none').status?.['hard'] !== undefined, 'the quota is in force')
  apply(stdio('denied'))
  await eventually(() => findReady('mcpserver', 'denied')?.reason === 'ChildRefused', 'ChildRefused')
  assert.not(exists('role', 'denied-mcp'))
  assert.not(exists('rolebinding', 'denied-mcp'))
  cluster.remove('quota', 'none')
})

test('the operator’s options decide who reaches admin listeners and what pod templates may ask for', async () => {
  const taking = manifest('MCPServer', 'taking', {
    image: 'a:1',
    transport: 'streamable-http',
    podTemplateSpec: { spec: { hostPID: true } },
  })
  apply(taking)
  await eventually(() => findReady('mcpserver', 'taking')?.reason === 'PodSecurityViolation', 'PodSecurityViolation')
  assert.not(exists('deployment', 'taking-mcp'))
  await cluster.operator.stop()
  const options = ['--pod-template=any', '--admin-from=monitoring']
  await cluster.startOperator(options, { POD_NAMESPACE: 'tools' })
  await eventually(() => exists('deployment', 'taking-mcp'), 'the template is accepted')
  const { ingress } = read('networkpolicy', 'taking-mcp').spec
  assert.equal(
    ingress[1]?.from.map((peer) => peer.namespaceSelector.matchLabels['kubernetes.io/metadata.name']),
    ['tools', 'monitoring'],
  )
})

test('our verdict on pods is that of the API server’s Pod Security “baseline”', async () => {
  apply(buildNamespace('baseline', { 'pod-security.kubernetes.io/enforce': 'baseline' }))
  const account = () => exists('serviceaccount', 'default', 'baseline')
  await eventually(account, 'the namespace’s ServiceAccount')
  const refusal = ({ metadata, spec }: PodCase): string => {
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: 'p', namespace: 'baseline' }, spec }
    return cluster.readRefusal(pod) ?? ''
  }
  const minor = minorVersion(kubernetes()('kube-apiserver'))
  const isKnown = ({ since = 0 }: PodCase) => minor >= since
  for (const one of forbidden.filter(isKnown))
    assert.match(refusal(one), 'violates PodSecurity "baseline:latest"', one.name)
  for (const one of allowed.filter(isKnown)) assert.is(refusal(one), '', one.name)
})

test.run()
