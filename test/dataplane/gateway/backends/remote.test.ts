/**
 * Tests remote servers over TLS, from the manifest to the call: the configuration rendered for an MCPRemoteProxy or
 * MCPServerEntry is mounted as in a pod and served.
 */
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type ServedGateway, serveGateway } from '../../../../dataplane/gateway/index.ts'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { type Authority, createAuthority } from '../../../support/network/certificates.ts'
import { configText, plansOfText } from '../../../support/operator/plans.ts'
import { type SseServer, startSseServer } from '../../../support/servers/sse-server.ts'

let authority: Authority
let server: SseServer

test.before(async () => {
  authority = await createAuthority()
  server = await startSseServer(authority)
})

test.after(async () => {
  await server.close()
  await authority.remove()
})

const spec = (more = '') => `
  remoteUrl: ${server.url}
  transport: sse
  allowPrivateEndpoint: true
  caBundleRef: {configMapRef: {name: remote-ca, key: ca.crt}}
  headerForward:
    addPlaintextHeaders: {x-team: tools}
    addHeadersFromSecret: [{headerName: authorization, valueSecretRef: {name: remote, key: token}}]${more}
---
kind: Secret
metadata: {name: remote}
stringData: {token: x}
---
kind: ConfigMap
metadata: {name: remote-ca}
data:
  ca.crt: |
    ${authority.ca.trim().replaceAll('\n', '\n    ')}
`

const manifests: Readonly<Record<string, () => string>> = {
  'MCPRemoteProxy/remote': () => `kind: MCPRemoteProxy\nmetadata: {name: remote}\nspec:${spec()}`,
  'VirtualMCPServer/gateway': () => `
kind: MCPGroup
metadata: {name: tools}
---
kind: VirtualMCPServer
metadata: {name: gateway}
spec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}}
---
kind: MCPServerEntry
metadata: {name: remote}
spec:${spec('\n  groupRef: {name: tools}')}`,
}

interface Served extends ServedGateway {
  /** Replaces a mounted file as the kubelet does. */
  mount(path: string, content: string): Promise<void>
}

async function serve(owner: string): Promise<Served> {
  const text = configText(plansOfText(manifests[owner]?.() ?? '').get(owner))
  const root = await mkdtemp(join(tmpdir(), 'portico-remote-'))
  const mount = async (path: string, content: string) => {
    const file = join(root, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(`${file}.new`, content)
    await rename(`${file}.new`, file)
  }
  await mount('config/gateway.yaml', text)
  await mount('secrets/remote/token', 'Bearer first\n')
  await mount('ca/remote-ca/ca.crt', authority.ca)
  const configFile = join(root, 'config/gateway.yaml')
  const options = { configFile, listen: '127.0.0.1:0', adminListen: '127.0.0.1:0', log: recordLog().log }
  const served = await serveGateway(options)
  const close = async () => {
    await served.close()
    await rm(root, { recursive: true })
  }
  return { ...served, close, mount }
}

async function echo({ url }: Served, name: string): Promise<string> {
  const { client } = await connect(`${url}/mcp`, 'modern')
  try {
    return readText(await client.callTool({ name, arguments: { message: 'hi' } }))
  } finally {
    await client.close()
  }
}

for (const [owner, tool] of [
  ['MCPRemoteProxy/remote', 'echo'],
  ['VirtualMCPServer/gateway', 'remote_echo'],
] as const)
  test(`${owner}: a private CA, forwarded headers, and a secret that rotates`, async () => {
    server.token = 'Bearer first'
    server.headers.length = 0
    const served = await serve(owner)
    const isServed = () =>
      echo(served, tool).then(
        (text) => text === 'hi',
        () => false,
      )
    try {
      assert.is(await echo(served, tool), 'hi')
      assert.ok(server.headers.every((headers) => headers['x-team'] === 'tools'))
      server.token = 'Bearer second'
      server.cut()
      assert.not(await isServed())
      await served.mount('secrets/remote/token', 'Bearer second\n')
      await eventually('the new credential to be used', isServed)
    } finally {
      await served.close()
    }
  })

test('another CA is not trusted until it replaces the file, without a restart', async () => {
  server.token = 'Bearer first'
  const other = await createAuthority()
  const served = await serve('MCPRemoteProxy/remote')
  try {
    await served.mount('ca/remote-ca/ca.crt', other.ca)
    server.cut()
    await new Promise((resolve) => setImmediate(resolve))
    await eventually('the server is distrusted', async () => {
      await echo(served, 'echo').catch(() => {})
      const { backends } = (await (await fetch(`${served.adminUrl}/status`)).json()) as {
        backends: { lastError: { message: string } | null }[]
      }
      server.cut()
      return /certificate/i.test(backends[0]?.lastError?.message ?? '')
    })
    await served.mount('ca/remote-ca/ca.crt', authority.ca)
    await eventually('the right one is trusted', () =>
      echo(served, 'echo').then(
        (text) => text === 'hi',
        () => false,
      ),
    )
  } finally {
    await served.close()
    await other.remove()
  }
})

test.run()
