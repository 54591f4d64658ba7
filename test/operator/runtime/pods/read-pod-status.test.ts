import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiServer } from '../../../../operator/cluster/kubernetes/api-server.ts'
import { PooledKubeConfig } from '../../../../operator/cluster/kubernetes/kube-config.ts'
import type { Pod } from '../../../../operator/runtime/pods/observation.ts'
import {
  type ReadPodStatus,
  readStatusByAddress,
  readStatusByProxy,
} from '../../../../operator/runtime/pods/read-pod-status.ts'

/** Asks a pod on this machine that answers with this text. */
const ask = (answer: string): Promise<unknown> => askWith((_, response) => response.end(answer))

async function askWith(answer: RequestListener, read = (_: number): ReadPodStatus => readStatusByAddress) {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  // A port of the same name in the user's container is never used, even if it comes first.
  const containers = [{ name: 'mcp', ports: [{ name: 'admin', containerPort: 1 }] }]
  const spec = { containers, initContainers: [{ name: 'portico', ports: [{ name: 'admin', containerPort: port }] }] }
  const labels = { 'app.kubernetes.io/name': 'mcpserver', 'app.kubernetes.io/instance': 'one' }
  const metadata = { name: 'one', namespace: 'a', labels }
  const pod: Pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec, status: { podIP: '127.0.0.1' } }
  try {
    return await read(port)(pod)
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

/** Asks through an API server, which passes the pod's answer on. */
function byProxy(port: number): ReadPodStatus {
  const config = new PooledKubeConfig()
  config.loadFromOptions({
    clusters: [{ name: 'c', server: `http://127.0.0.1:${port}`, skipTLSVerify: true }],
    users: [{ name: 'u' }],
    contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
    currentContext: 'x',
  })
  return readStatusByProxy(new ApiServer(config, 'test'))
}

for (const [way, read] of [
  ['at its address', undefined],
  ['through the API server', byProxy],
] as const) {
  test(`a pod that answers without end is given up ${way}`, async () => {
    let sent = 0
    const sendEndlessly: RequestListener = (_, response) => {
      const piece = Buffer.alloc(64 * 1024, 0x20)
      const writeMore = () => {
        while (!response.destroyed && response.write(piece)) sent += piece.length
      }
      response.on('drain', writeMore)
      writeMore()
    }
    const refused = await askWith(sendEndlessly, read).then(
      () => assert.unreachable() as never,
      (error: Error) => error,
    )
    assert.match(refused.message, 'more than')
    assert.ok(sent < 64 * 1024 * 1024, `${sent}`)
  })

  test(`a pod that answers a byte at a time is given up ${way}`, async () => {
    const slow: RequestListener = (_, response) => {
      const timer = setInterval(() => response.write(' '), 100)
      response.on('close', () => clearInterval(timer))
    }
    const refused = await askWith(slow, read).then(
      () => assert.unreachable() as never,
      (error: Error) => error,
    )
    assert.match(refused.name, /TimeoutError|AbortError/)
  })
}

test.run()
