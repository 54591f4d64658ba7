/** A stdio server isn't served yet, so that no plan shows its pod; the shape of it is held here until one does. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { MCPServer } from '../../../crds/index.ts'
import { createView } from '../../../operator/model/index.ts'
import { assembleMcpServer, renderMcpServer } from '../../../operator/reconcile/mcp-server.ts'
import { startProblems } from '../../../operator/reconcile/problems.ts'
import { startResolver } from '../../../operator/reconcile/resolver.ts'
import { context, defaulted } from '../../support/plans.ts'

const object = defaulted({
  apiVersion: 'portico.dev/v1beta1',
  kind: 'MCPServer',
  metadata: { name: 'time', namespace: 'default' },
  spec: { image: 'time', transport: 'stdio', replicas: 1 },
}) as unknown as MCPServer

test('a stdio server is a StatefulSet of one pod whose standard input closes with its proxy', () => {
  const view = createView({ objects: [] })
  const problems = startProblems()
  const assembly = assembleMcpServer(object, startResolver(view, 'default', problems), context)
  assert.equal(
    problems.all().map(({ reason }) => reason),
    ['NotYetSupported'],
  )
  const { children } = renderMcpServer(object, assembly, view, problems, context)
  const pods = children.find(({ kind }) => kind === 'StatefulSet')
  assert.is(pods?.metadata.name, 'time-mcp')
  const spec = pods?.['spec'] as { serviceName: string; replicas: number; template: { spec: { containers: object[] } } }
  assert.is(spec.serviceName, 'mcp-time')
  assert.is(spec.replicas, 1)
  const [server] = spec.template.spec.containers as {
    stdin: boolean
    stdinOnce: boolean
    env?: object
    ports?: object
  }[]
  assert.is(server?.stdin, true)
  assert.is(server?.stdinOnce, true)
  assert.is(server?.ports, undefined)
  assert.is(server?.env, undefined)
})

test.run()
