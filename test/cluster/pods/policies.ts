/** Follows policies from kubectl through operator, ConfigMap and volume to the decisions of a running gateway. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { serveGateway } from '../../../dataplane/gateway/index.ts'
import { openSession, post, postModern, rpc } from '../../support/gateway/post.ts'
import { recordLog } from '../../support/kept-log.ts'
import { type MountedVolume, mountVolume } from '../../support/mounted-volume.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../support/servers/raw-server.ts'
import { unwrap } from '../../support/unwrap.ts'
import { newCluster } from '../support/cluster.ts'
import { gateway, group, manifest, server } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'

const permitOnly = (name: string) => `permit(principal, action, resource == Tool::"everything_${name}");`
const BROKEN = 'permit(principal, action, resource)\nwhenever { true };'

const cluster = newCluster()
const { apply, condition, read } = cluster
let backend: RawServer

test.before(async () => {
  backend = await startRawServer({
    era: 'modern',
    tools: [tool('read'), tool('write')],
    call: (request) => answer(request, OK_RESULT),
  })
  await cluster.start()
  apply(group(), server('everything'))
})
test.after(async () => {
  await cluster.stop()
  await backend?.close()
})

/** Runs a gateway on the operator’s ConfigMap of a VirtualMCPServer, in a volume as a kubelet keeps it. */
class MountedGateway {
  readonly #name: string
  readonly #volume: MountedVolume
  readonly #served: Awaited<ReturnType<typeof serveGateway>>
  readonly url: string
  #mounted: string

  private constructor(
    name: string,
    volume: MountedVolume,
    parts: { served: Awaited<ReturnType<typeof serveGateway>>; text: string },
  ) {
    this.#name = name
    this.#volume = volume
    this.#served = parts.served
    this.#mounted = parts.text
    this.url = `${parts.served.url}/mcp`
  }

  static async start(name: string): Promise<MountedGateway> {
    const text = await eventually(() => readConfig(name), 'the ConfigMap exists')
    const volume = await mountVolume({ 'gateway.yaml': text })
    const served = await serveGateway({
      configFile: `${volume.directory}/gateway.yaml`,
      listen: '127.0.0.1:0',
      adminListen: '127.0.0.1:0',
      log: recordLog().log,
    })
    return new MountedGateway(name, volume, { served, text })
  }

  /** Updates the volume from the ConfigMap, as a kubelet does. */
  async sync(): Promise<void> {
    const text = readConfig(this.#name)
    if (text === this.#mounted) return
    this.#mounted = text
    await this.#volume.update({ 'gateway.yaml': text })
  }

  /** Returns which of the two tools the caller may call. */
  async allowed(): Promise<string> {
    await this.sync()
    const names = ['read', 'write']
    const answers = await Promise.all(
      names.map((name) => postModern(this.url, 'tools/call', { name: `everything_${name}` })),
    )
    return names.filter((_, index) => answers[index]?.json.result !== undefined).join()
  }

  async close(): Promise<void> {
    await this.#served.close()
    await this.#volume.remove()
  }
}

/** Returns the gateway's configuration, with the address of the server in this process instead of its DNS name. */
const readConfig = (name: string): string =>
  unwrap(read('configmap', `${name}-vmcp-config`).data['gateway.yaml']).replace(
    /http:\/\/mcp-everything\S+/,
    backend.url,
  )

const buildGuarded = (name: string, authz: object) => {
  const created = gateway(name)
  Object.assign(created.spec['incomingAuth'] as object, authz)
  return created
}

const configMap = (policy: string) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'policies', namespace: 'default' },
  data: { 'authz.json': JSON.stringify({ policies: [policy] }) },
})

const authzConfig = (name: string, ...policies: string[]) =>
  manifest('MCPAuthzConfig', name, { type: 'cedarv1', config: { policies } })

for (const [name, source, authz] of [
  ['by-map', configMap, { authzConfig: { type: 'configMap', configMap: { name: 'policies' } } }],
  ['by-kind', (policy: string) => authzConfig('policies', policy), { authzConfigRef: { name: 'policies' } }],
] as const)
  test(`${name}: changed policies apply in the running gateway, and broken ones leave the last good ones in force`, async () => {
    apply(source(permitOnly('read')), buildGuarded(name, authz))
    const mounted = await MountedGateway.start(name)
    try {
      await eventually(async () => (await mounted.allowed()) === 'read', 'the first policies are in force')
      const session = await openSession(mounted.url)

      apply(source(permitOnly('write')))
      await eventually(async () => (await mounted.allowed()) === 'write', 'the second policies are in force')
      assert.is((await post(mounted.url, rpc('ping'), session)).status, 200, 'sessions live on')

      apply(source(BROKEN))
      const refused = await eventually(() => {
        const found = condition('vmcp', name, 'ReferencesResolved')
        return found?.status === 'False' && found
      }, 'the condition')
      assert.match(refused.message, /policies\/0: line 2, column 1: /)
      await eventually(async () => (await mounted.allowed()) === 'write', 'the last good policies are in force')

      apply(source(`${permitOnly('read')}${permitOnly('write')}`))
      await eventually(async () => (await mounted.allowed()) === 'read,write', 'the third policies are in force')
      await eventually(() => condition('vmcp', name, 'ReferencesResolved')?.status === 'True', 'all is well')
      assert.is((await post(mounted.url, rpc('ping'), session)).status, 200)
    } finally {
      await mounted.close()
    }
  })

test('a broken MCPAuthzConfig reports its problem in its own status', async () => {
  apply(authzConfig('broken', permitOnly('read'), BROKEN))
  const valid = await eventually(() => condition('mcpauthz', 'broken', 'Valid'), 'the condition exists')
  assert.is(valid.status, 'False')
  assert.match(valid.message, /policies\/1: line 2, column 1: /)
})

test.run()
