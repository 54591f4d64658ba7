import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startCutProxy } from '../../support/network/cut-proxy.ts'
import { newCluster } from '../support/cluster.ts'
import { gateway, group, type Manifest, proxy, server, telemetry, yaml } from '../support/manifests.ts'
import {
  eventually,
  OPERATOR_USER,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from '../support/operator-process.ts'

const cluster = newCluster()
const { apply, condition, exists, kubectl, list, mergePatch, read, remove } = cluster
let relay: Awaited<ReturnType<typeof startCutProxy>>
let kubeconfig: string
const running: OperatorProcess[] = []

async function start(args: readonly string[] = [], file = kubeconfig): Promise<OperatorProcess> {
  const operator = await startOperator(file, args)
  running.push(operator)
  await operator.ready()
  return operator
}

/** Ends the operators that run. */
async function endAll(): Promise<void> {
  for (const operator of running.splice(0)) if (!operator.exited) await operator.stop('SIGKILL')
}

/** Returns the operator that tests share until one of them ends it. */
const useOperator = async (): Promise<OperatorProcess> => running.find(({ exited }) => !exited) ?? start()

const findReady = (kind: string, name: string) => condition(kind, name, 'Ready')
const referrers = (name: string) =>
  (read('mcpotel', name).status?.referencingWorkloads ?? []).map((one) => `${one.kind}/${one.name}`)
const names = (kind: string) => list(kind).map(({ metadata }) => metadata.name)

test.before(async () => {
  await cluster.install()
  await cluster.stopOperator()
  relay = await startCutProxy({ host: '127.0.0.1', port: Number(new URL(cluster.plane.server).port) })
  kubeconfig = operatorKubeconfig(cluster.plane, 'relayed', `https://127.0.0.1:${relay.port}`)
  apply(group(), telemetry('main'))
})

test.after.each(() => relay.thaw())

test.after(async () => {
  await endAll()
  await relay?.close()
  await cluster.stop()
})

test('the operator waits while the API server is down for a minute, and resumes', async () => {
  const operator = await useOperator()
  apply(gateway('before', 'main'))
  await eventually(() => exists('deployment', 'before-vmcp'), 'the operator works before')
  await cluster.plane.stopApiServer('SIGKILL')
  await delay(60_000)
  assert.not(operator.exited, operator.log())
  const lines = operator.log().split('\n').length
  assert.ok(lines < 400, `no log storm: ${lines} lines`)
  await cluster.plane.startApiServer()
  apply(gateway('after', 'main'))
  remove('vmcp', 'before')
  await eventually(() => exists('deployment', 'after-vmcp'), 'the operator works again')
  await eventually(() => referrers('main').join() === 'VirtualMCPServer/after', 'the list is correct')
})

test('an operator that starts while the API server is down is alive but not ready, and begins once it is back', async () => {
  await endAll()
  kubectl(['run', 'own', '--namespace=portico-system', '--image=example.com/portico:own'])
  relay.refuse()
  const operator = await startOperator(kubeconfig, [], { POD_NAME: 'own' })
  running.push(operator)
  await eventually(() => operator.log().includes('waiting for the API server'), 'the log says what it waits for')
  assert.is((await fetch(`${operator.health}/healthz`)).status, 200)
  const unready = await fetch(`${operator.health}/readyz`)
  assert.is(unready.status, 503)
  assert.equal(await unready.json(), { status: 'not ready', reason: 'waiting for the API server' })
  assert.is((await fetch(operator.metrics)).status, 503)
  relay.thaw()
  await operator.ready()
  assert.match(operator.log(), '"image":"example.com/portico:own"')
  await endAll()
})

test('an operator that waits for the API server ends on SIGTERM', async () => {
  relay.refuse()
  const operator = await startOperator(kubeconfig, [], { POD_NAME: 'own' })
  running.push(operator)
  await eventually(() => operator.log().includes('waiting for the API server'), 'the operator waits')
  await operator.stop()
  assert.ok(operator.exited)
})

test('an operator whose own pod does not exist says so and ends', async () => {
  const operator = await startOperator(kubeconfig, [], { POD_NAME: 'nobody' })
  running.push(operator)
  await eventually(() => operator.exited, 'the operator has ended')
  assert.match(operator.log(), 'there is no pod portico-system/nobody: name the image of the data plane with --image')
})

test('a cut watch loses nothing', async () => {
  await useOperator()
  await eventually(() => referrers('main').join() === 'VirtualMCPServer/after', 'the list is correct before')
  relay.refuse()
  apply(proxy('cut', 'main'))
  remove('vmcp', 'after')
  await delay(500)
  relay.thaw()
  await eventually(() => exists('deployment', 'cut-mcprp') && !exists('deployment', 'after-vmcp'), 'both are noticed')
  await eventually(() => referrers('main').join() === 'MCPRemoteProxy/cut', 'the list is correct')
})

test('a silent connection is given up, and what it missed is caught up', async () => {
  const operator = await useOperator()
  relay.freeze()
  apply(proxy('silent'))
  await delay(1000)
  relay.cut()
  relay.thaw()
  await eventually(() => exists('deployment', 'silent-mcprp'), 'the object is noticed after the thaw')
  assert.not(operator.exited)
  remove('mcprp', 'silent')
})

test('an expired resource version (410 Gone) causes a new list', async () => {
  await useOperator()
  relay.refuse()
  apply(proxy('gone', 'main'))
  remove('mcprp', 'cut')
  await cluster.plane.stopApiServer('SIGKILL')
  await cluster.plane.startApiServer()
  apply(server('newer', 'main'))
  relay.thaw()
  await eventually(
    () => exists('deployment', 'gone-mcprp') && exists('deployment', 'newer-mcp') && !exists('deployment', 'cut-mcprp'),
    'all is noticed',
  )
  await eventually(() => referrers('main').join() === 'MCPRemoteProxy/gone,MCPServer/newer', 'the list is correct')
  remove('mcprp', 'gone')
  remove('mcpserver', 'newer')
})

test('everything converges after repeated kill -9 in the middle of work', async () => {
  await endAll()
  const many = Array.from({ length: 20 }, (_, index) => gateway(`many-${index}`, 'main'))
  for (let round = 0; round < 4; round++) {
    const operator = await start()
    apply(...many.slice(round * 5, round * 5 + 5))
    await delay(60 + Math.random() * 400)
    await operator.stop('SIGKILL')
  }
  await start()
  await eventually(
    () => names('deployments').filter((name) => name.startsWith('many-')).length === 20,
    'every Deployment',
  )
  await eventually(() => referrers('main').length === 20, 'the list has every referrer')
  for (const { metadata } of many) {
    assert.ok(exists('service', `vmcp-${metadata.name}`))
    assert.ok(exists('configmap', `${metadata.name}-vmcp-config`))
  }
})

test('deletions while the operator was down are noticed', async () => {
  const first = await useOperator()
  await eventually(() => referrers('main').length === 20, 'the list has every referrer')
  await first.stop()
  for (let index = 5; index < 20; index++) remove('vmcp', `many-${index}`)
  remove('deployment', 'many-0-vmcp')
  apply(telemetry('unused'))
  await start()
  await eventually(() => referrers('main').length === 5, 'deleted workloads are gone from the list')
  await eventually(() => exists('deployment', 'many-0-vmcp'), 'a child deleted meanwhile comes back')
  await eventually(
    () => names('deployments').filter((name) => name.startsWith('many-')).length === 5,
    'children went with their owners',
    180_000,
  )
})

test('an unused config that was deleted while the operator was down goes at once', async () => {
  const first = await useOperator()
  apply(telemetry('held'), gateway('holder', 'held'))
  await eventually(
    () => read('mcpotel', 'held').metadata.finalizers?.includes('portico.dev/in-use'),
    'the finalizer is on',
  )
  await first.stop()
  remove('mcpotel', 'held')
  remove('vmcp', 'holder')
  assert.ok(exists('mcpotel', 'held'))
  await start()
  await eventually(() => !exists('mcpotel', 'held'), 'the config is deleted')
})

test('a malformed object does not affect the others', async () => {
  const crd = read('crd', 'mcpremoteproxies.portico.dev')
  const good = structuredClone(crd)
  const [version] = crd.spec.versions
  version.schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } }
  const replace = (object: unknown) =>
    kubectl(['replace', '--force=false', '-f', '-'], { input: JSON.stringify(object) })
  replace({ ...crd, metadata: { name: crd.metadata.name } })
  const operator = await useOperator()
  const bad = {
    ...proxy('malformed'),
    spec: { remoteUrl: { not: 'a text' }, telemetryConfigRef: 'main', headerForward: 7 },
  }
  const empty = { ...proxy('empty'), spec: undefined } as unknown as Manifest
  await eventually(
    () => kubectl(['apply', '--validate=false', '-f', '-'], { input: yaml(bad, empty) }),
    'the schema is loose',
  )
  apply(gateway('beside', 'main'))
  await eventually(() => exists('deployment', 'beside-vmcp'), 'the good one is served')
  assert.not(operator.exited)
  remove('mcprp', 'malformed')
  remove('mcprp', 'empty')
  replace({ ...good, metadata: { name: good.metadata.name } })
  await eventually(() => names('mcprp').length === 0, 'the malformed ones can be deleted')
})

test('finalizers and statuses of others survive conflicts', async () => {
  await useOperator()
  apply(telemetry('shared'), gateway('sharer', 'shared'))
  await eventually(() => read('mcpotel', 'shared').metadata.finalizers?.length === 1, 'our finalizer is set')
  const theirs = [{ op: 'add', path: '/metadata/finalizers/-', value: 'example.com/theirs' }]
  cluster.patch('mcpotel', 'shared', theirs, { type: 'json' })
  for (let edit = 0; edit < 10; edit++)
    mergePatch('mcpotel', 'shared', { metadata: { annotations: { 'example.com/edit': `${edit}` } } })
  remove('vmcp', 'sharer')
  await eventually(
    () => read('mcpotel', 'shared').metadata.finalizers?.join() === 'example.com/theirs',
    'ours goes, theirs stays',
  )
  mergePatch('mcpotel', 'shared', { metadata: { finalizers: null } })
  cluster.patch('mcpotel', 'shared', { status: { configHash: 'forged' } }, { subresource: 'status' })
  await eventually(
    () => read('mcpotel', 'shared').status.configHash.startsWith('sha256:'),
    'a forged status is corrected',
  )
})

test('a denied write is reported, affects nothing else, and succeeds once the rights are back', async () => {
  const roleName = 'portico-operator'
  const role = read('clusterrole', roleName)
  const withRules = (rules: unknown) =>
    kubectl(['replace', '-f', '-'], {
      input: JSON.stringify({ apiVersion: role.apiVersion, kind: role.kind, metadata: { name: roleName }, rules }),
    })
  const operator = await useOperator()
  withRules(
    role.rules.map((rule) => (rule.apiGroups[0] === 'apps' ? { ...rule, verbs: ['get', 'list', 'watch'] } : rule)),
  )
  await eventually(() => !cluster.may(OPERATOR_USER, 'patch', 'deployment'), 'the changed right applies')
  apply(gateway('denied'))
  const condition = await eventually(
    () => findReady('vmcp', 'denied')?.reason === 'ChildRefused' && findReady('vmcp', 'denied'),
    'the refusal is shown',
  )
  assert.match(condition.message, 'forbidden')
  assert.not(operator.exited)
  apply(telemetry('unharmed'))
  await eventually(() => read('mcpotel', 'unharmed').status?.configHash, 'other objects are reconciled')
  withRules(role.rules)
  await eventually(() => exists('deployment', 'denied-vmcp'), 'the Deployment is created', 180_000)
})

test('one of two operators works and the other takes over, without duplicate writes', async () => {
  await endAll()
  const args = ['--leader-elect']
  const operators = [await start(args), await start(args)]
  const findLeader = async () => {
    const states = await Promise.all(
      operators.map(async (operator) =>
        operator.exited
          ? false
          : ((await (await fetch(`${operator.health}/status`)).json()) as { leading: boolean }).leading,
      ),
    )
    return states.indexOf(true)
  }
  const leader = () => eventually(async () => (await findLeader()) + 1, 'one operator leads')
  await leader()
  const before = cluster.plane.writes().length
  apply(gateway('once'))
  await eventually(() => exists('deployment', 'once-vmcp'), 'the leader works')
  await delay(1000)
  const creations = cluster.plane
    .writes()
    .slice(before)
    .filter(({ user, name, code }) => user === OPERATOR_USER && name === 'once-vmcp' && code === 201)
  assert.is(creations.filter(({ resource }) => resource === 'deployments').length, 1)
  const killed = (await leader()) - 1
  await operators[killed]!.stop('SIGKILL')
  apply(gateway('twice'))
  await eventually(() => exists('deployment', 'twice-vmcp'), 'the other takes over')
  await eventually(async () => (await findLeader()) === 1 - killed, 'the other leads')
})

test.run()
