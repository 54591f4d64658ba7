import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Pod } from '../../../../operator/runtime/pods/observation.ts'
import { readStatusByAddress } from '../../../../operator/runtime/pods/read-pod-status.ts'

/** Asks a pod on this machine that answers with this text. */
async function ask(answer: string): Promise<unknown> {
  const server = createServer((_, response) => response.end(answer))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  // A port of the same name in the user's container is none of ours, whatever comes first.
  const containers = [{ name: 'mcp', ports: [{ name: 'admin', containerPort: 1 }] }]
  const spec = { containers, initContainers: [{ name: 'portico', ports: [{ name: 'admin', containerPort: port }] }] }
  const labels = { 'app.kubernetes.io/name': 'mcpserver', 'app.kubernetes.io/instance': 'one' }
  const metadata = { name: 'one', namespace: 'a', labels }
  const pod: Pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec, status: { podIP: '127.0.0.1' } }
  try {
    return await readStatusByAddress(pod)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

test('the status of an older or newer data plane is accepted, too', async () => {
  for (const status of [{ config: 'sha256:1', problems: [], backends: [], more: 1 }, { config: 'sha256:1' }, {}])
    assert.equal(await ask(JSON.stringify(status)), status)
})

test('an answer of another form is ignored, and does no harm', async () => {
  for (const text of ['null', '7', '"x"', '[]', '{"config":7}', '{"sources":{}}', '{"problems":"x"}', '{', ''])
    try {
      await ask(text)
      assert.unreachable(text)
    } catch (error) {
      assert.not.instance(error, assert.Assertion, text)
    }
})

test.run()
