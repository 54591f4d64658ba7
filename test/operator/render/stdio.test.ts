import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import {
  buildWorld,
  condition,
  configText,
  context,
  findChild,
  plansOfText,
  planWorld,
} from '../../support/operator/plans.ts'

const server = (more = '') => `
kind: MCPServer
metadata: {name: time}
spec:
  image: time${more}
`

interface Pod {
  readonly serviceAccountName?: string
  readonly automountServiceAccountToken: boolean
  readonly containers: readonly Container[]
  readonly initContainers: readonly Container[]
}

interface Container {
  readonly name: string
  readonly stdin?: boolean
  readonly stdinOnce?: boolean
  readonly env?: object
  readonly ports?: object
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
}

const renderPod = (text: string) => {
  const workload = findChild(plansOfText(text).get('MCPServer/time'), 'StatefulSet')
  return workload['spec'] as { serviceName: string; replicas: number; template: { spec: Pod } }
}

test('a stdio server is a StatefulSet of one pod whose standard input closes with its proxy', () => {
  const { serviceName, replicas, template } = renderPod(server())
  assert.is(serviceName, 'mcp-time')
  assert.is(replicas, 1)
  const [mcp] = template.spec.containers
  assert.is(mcp?.stdin, true)
  assert.is(mcp?.stdinOnce, true)
  assert.is(mcp?.ports, undefined)
  assert.is(mcp?.env, undefined)
})

test('only its proxy has a token, which allows attaching only to that pod', () => {
  const plan = plansOfText(server()).get('MCPServer/time')
  const { template } = renderPod(server())
  const { containers, initContainers, serviceAccountName, automountServiceAccountToken } = template.spec
  assert.is(automountServiceAccountToken, false)
  assert.is(serviceAccountName, 'time-mcp')
  assert.not(containers[0]?.volumeMounts.some(({ name }) => name === 'portico-cluster'))
  assert.ok(initContainers[0]?.volumeMounts.some(({ mountPath }) => mountPath === '/etc/portico/cluster'))
  assert.equal(findChild(plan, 'Role')['rules'], [
    { apiGroups: [''], resources: ['pods/attach'], resourceNames: ['time-mcp-0'], verbs: ['create', 'get'] },
  ])
  assert.equal(findChild(plan, 'RoleBinding')['subjects'], [
    { kind: 'ServiceAccount', name: 'time-mcp', namespace: 'default' },
  ])
  const { backends } = parse(configText(plan)) as GatewayConfig
  assert.equal(backends, [
    {
      name: 'time',
      transport: 'stdio',
      stdio: {
        attach: {
          namespace: 'default',
          pod: 'time-mcp-0',
          container: 'mcp',
          tokenFile: '../cluster/token',
          caFile: '../cluster/ca.crt',
        },
      },
    },
  ])
})

test('a chosen ServiceAccount gets the right and is not created', () => {
  const plan = plansOfText(server('\n  serviceAccount: mine')).get('MCPServer/time')
  assert.throws(() => findChild(plan, 'ServiceAccount'))
  assert.equal((findChild(plan, 'RoleBinding')['subjects'] as { name: string }[])[0]?.name, 'mine')
})

test('it has one pod, or none', () => {
  assert.is(renderPod(server('\n  replicas: 0')).replicas, 0)
  const plan = plansOfText(server('\n  replicas: 2')).get('MCPServer/time')
  assert.match(condition(plan, 'Ready') ?? '', '/spec/replicas must not be above 1')
})

test('without containers it is the local command, with the variables of the container', () => {
  const text = `${server(`
  env: [{name: A, value: b}]
  secrets: [{name: api, key: token, targetEnvName: TOKEN}]`)}---
kind: Secret
metadata: {name: api}
stringData: {token: x}
`
  const local = { command: ['/bin/sh', '-c', 'serve'], cwd: '/srv', env: { PATH: '/bin' } }
  const plan = planWorld(buildWorld(text), { ...context, serverCommand: () => local }).get('MCPServer/time')
  const { backends } = parse(configText(plan)) as GatewayConfig
  assert.equal(backends[0]?.stdio, {
    ...local,
    env: { PATH: '/bin', A: 'b' },
    envFiles: [{ name: 'TOKEN', file: '../secrets/api/token' }],
  })
})

test.run()
