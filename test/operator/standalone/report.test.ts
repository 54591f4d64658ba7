import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { RunningPod } from '../../../operator/standalone/pod/running-pod.ts'
import { buildReport } from '../../../operator/standalone/report.ts'

const pod = (kind: string, name: string, phase: string, isServing: boolean) => ({
  running: { id: { kind, namespace: 'default', name }, phase, isServing, pod: undefined } as unknown as RunningPod,
  base: 'http://127.0.0.1:1',
})

test('the report lists starting workloads, not failed ones or those that still serve', () => {
  const pods = [
    pod('MCPServer', 'slow', 'starting', false),
    pod('VirtualMCPServer', 'front', 'starting', false),
    pod('MCPServer', 'again', 'starting', true),
    pod('MCPServer', 'broken', 'failed', false),
    pod('MCPServer', 'up', 'ready', true),
  ]
  const { ready, starting, endpoints } = buildReport(pods, [], [], (text) => text)
  assert.not(ready)
  assert.equal(
    starting.map(({ name }) => name),
    ['front', 'slow'],
  )
  assert.equal(
    endpoints.map(({ name }) => name),
    ['again', 'up'],
  )
})

test.run()
