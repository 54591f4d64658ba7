/** Attaches to a container; the tests with a real kubelet are in test/e2e. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { type Kubelet, startKubelet } from '../../../support/operator/kubelet.ts'

const RAW = fileURLToPath(new URL('../../../support/servers/stdio-server.ts', import.meta.url))

let kubelet: Kubelet
let gateway: GatewayUnderTest

const setToken = (token: string, directory = gateway.directory) => writeFile(join(directory, 'token'), `${token}\n`)

test.before(async () => {
  kubelet = await startKubelet([process.execPath, RAW])
  const attach = { server: kubelet.url, namespace: 'team', pod: 'time-mcp-0', container: 'mcp', tokenFile: 'token' }
  gateway = await startGateway({ backends: [{ name: 'time', transport: 'stdio', stdio: { attach } }] }, (directory) =>
    setToken('first', directory),
  )
  await gateway.listed()
})

test.after(async () => {
  await gateway.close()
  await kubelet.close()
})

const answers = async (
  era: 'modern' | 'legacy',
  name = 'time_echo',
  args: Record<string, unknown> = { message: 'hi' },
) => {
  const { client } = await connect(gateway.url, era)
  try {
    return readText(await client.callTool({ name, arguments: args }))
  } finally {
    await client.close()
  }
}

const answersAgain = () =>
  eventually('the server to answer again', () =>
    answers('legacy').then(
      (text) => text === 'hi',
      () => false,
    ),
  )

test('the gateway attaches to the container once for clients of both eras', async () => {
  assert.is(await answers('modern'), 'hi')
  assert.is(await answers('legacy'), 'hi')
  assert.equal(kubelet.attached, [
    '/api/v1/namespaces/team/pods/time-mcp-0/attach?container=mcp&stdin=true&stdout=true&stderr=false&tty=false',
  ])
})

test('a message larger than a frame arrives whole', async () => {
  const message = 'ä'.repeat(200_000)
  assert.is(await answers('legacy', 'time_echo', { message }), message)
})

test('after a cut connection the container restarts and is attached and initialized again', async () => {
  const { starts } = kubelet
  kubelet.cut()
  await eventually('the container to be started again', () => kubelet.starts > starts)
  await answersAgain()
  assert.is(await answers('modern', 'time_count'), '1')
})

test('a container that ends in the middle of a message is attached again', async () => {
  await answers('legacy', 'time_die').then(
    () => assert.unreachable(),
    () => {},
  )
  await answersAgain()
})

test('a refused token is reported on /status, and a new one is read', async () => {
  kubelet.token = 'second'
  kubelet.cut()
  await eventually('the refusal', async () => {
    await answers('modern').catch(() => {})
    const { backends } = await gateway.status()
    return backends[0]?.lastError?.message.includes('HTTP 403 cannot create pods/attach') ?? false
  })
  await setToken('second')
  await answersAgain()
})

test.run()
