/** Runs a stdio server on this machine, as a child of our data plane, behind a gateway. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { connect, readText } from '../../support/gateway/clients.ts'
import { ownHost } from '../../support/gateway/own-host.ts'
import { processesMarked, RunningPortico } from '../../support/operator/running-portico.ts'

const script = join(import.meta.dirname, '../../support/servers/stdio-server.ts')

const manifests = (secret: string) => `
apiVersion: portico.dev/v1beta1
kind: MCPGroup
metadata: {name: tools}
---
apiVersion: portico.dev/v1beta1
kind: MCPServer
metadata:
  name: raw
  annotations: {portico.dev/local-command: "node ${script}"}
spec:
  image: someone/server
  transport: stdio
  groupRef: {name: tools}
  env: [{name: PLAIN, value: plain}]
  secrets: [{name: token, key: key, targetEnvName: SECRET}]
---
apiVersion: portico.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: gateway}
spec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}}
---
apiVersion: v1
kind: Secret
metadata: {name: token}
stringData: {key: ${secret}}
`

test('the local command speaks stdio to its data plane, gets its variables, and ends with it', async () => {
  using folder = temporaryFolder()
  const file = join(folder.path, 'all.yaml')
  writeFileSync(file, manifests('hush'))
  const portico = new RunningPortico([file, '--host', ownHost, '--state', join(folder.path, 'state')], {
    MARK: folder.path,
  })
  try {
    const { endpoints } = await portico.ready()
    const { url } = endpoints.find(({ kind }) => kind === 'VirtualMCPServer') ?? { url: '' }
    const { client } = await connect(url, 'modern')
    assert.ok((await client.listTools()).tools.some(({ name }) => name === 'raw_echo'))
    const call = (name: string, args = {}) => client.callTool({ name, arguments: args }).then(readText)
    assert.is(await call('raw_echo', { message: 'hi' }), 'hi')
    assert.is(await call('raw_env'), `plain hush ${folder.path}`)
    await client.close()
  } finally {
    await portico.stop()
  }
  assert.not.match(portico.errors, 'hush')
  await eventually('all processes are gone', () => processesMarked(folder.path).length === 0)
})

test.run()
