/** Checks that the same manifests with pins give the same lists on a laptop and in a cluster. */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { definitionDigest } from '../../../crds/settings/definition-digest.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { startGateway, type TestConfig } from '../../support/gateway/gateway.ts'
import { postModern } from '../../support/gateway/post.ts'
import { configText, plansOfText } from '../../support/operator/plans.ts'
import { RunningPortico } from '../../support/operator/running-portico.ts'
import { startChangingServer } from '../../support/servers/changing-server.ts'
import { tool } from '../../support/servers/raw-server.ts'

const LISTS = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list', 'server/discover']

test('a gateway of `portico run` and one of the operator show the same, also once an MCPPin is gone', async () => {
  const folder = temporaryFolder()
  const server = await startChangingServer('modern', {
    tools: [tool('alpha'), tool('changed', '"description":"Another text."'), tool('unknown')],
    prompts: ['{"name":"kept"}', '{"name":"unknown"}'],
    resources: ['{"uri":"file:///bare","name":"A name","title":"A title"}'],
    instructions: 'Be kind.',
  })
  const digest = (text: string) => [definitionDigest(text)]
  const pin = (name: string, spec: object) =>
    JSON.stringify({
      ...{ apiVersion: 'portico.dev/v1beta1', kind: 'MCPPin', metadata: { name, namespace: 'default' } },
      spec: { targetRef: { kind: 'MCPServerEntry', name: 'far' }, ...spec },
    })
  const tools = [
    { name: 'alpha', digests: digest(tool('alpha')) },
    { name: 'changed', digests: digest(tool('changed')) },
  ]
  const pins = {
    first: pin('first', { tools, unlisted: { resources: 'bare' } }),
    second: pin('second', { prompts: [{ name: 'kept', digests: digest('{"name":"kept"}') }] }),
  }
  const manifests = `apiVersion: portico.dev/v1beta1
kind: MCPGroup
metadata: {name: tools, namespace: default}
spec: {}
---
apiVersion: portico.dev/v1beta1
kind: MCPServerEntry
metadata: {name: far, namespace: default}
spec: {groupRef: {name: tools}, remoteUrl: "${server.url}", transport: streamable-http, allowPrivateEndpoint: true}
---
apiVersion: portico.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: front, namespace: default}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: anonymous}
  config: {pinning: {mode: enforce}}
`
  /** The configuration that the operator renders for the gateway's pods. */
  const buildConfig = (...own: readonly string[]): TestConfig => {
    const plan = plansOfText([manifests, ...own].join('\n---\n')).get('VirtualMCPServer/front')
    const { name, namespace, role, incomingAuth, backends, failureHandling } = parse(configText(plan)) as TestConfig
    return { name, namespace, role, incomingAuth, backends, failureHandling } as TestConfig
  }
  writeFileSync(join(folder.path, 'all.yaml'), manifests)
  for (const [name, text] of Object.entries(pins)) writeFileSync(join(folder.path, `${name}.json`), text)
  const portico = new RunningPortico([folder.path, '--state', join(folder.path, 'state'), '--console', 'off'])
  const gateway = await startGateway(buildConfig(pins.first, pins.second))
  try {
    const { endpoints } = await portico.ready()
    const url = endpoints.find(({ kind }) => kind === 'VirtualMCPServer')?.url ?? ''
    const readList = async (at: string) => {
      const texts = await Promise.all(LISTS.map(async (method) => (await postModern(at, method)).text))
      return texts.join('\n').replace(/"serverInfo":\{[^}]*\}/g, '')
    }
    const both = async (what: string, is: (text: string) => boolean) => {
      for (const at of [url, gateway.url]) await eventually(what, async () => is(await readList(at)))
      const [laptop, cluster] = [await readList(url), await readList(gateway.url)]
      assert.is(laptop, cluster, what)
      for (const not of ['unknown', 'Another text', 'A title', 'Be kind.']) assert.not.ok(laptop.includes(not), not)
    }
    await both('the approved ones', (text) => text.includes('"far_alpha"') && text.includes('"file:///bare"'))
    rmSync(join(folder.path, 'first.json'))
    await gateway.configure(buildConfig(pins.second))
    await both('the prompt alone', (text) => !text.includes('alpha') && !text.includes('file:'))
    assert.match(await readList(url), '"prompts":[{')
    rmSync(join(folder.path, 'second.json'))
    await gateway.configure(buildConfig())
    await both('nothing', (text) => !text.includes('kept') && text.includes('"prompts":[]'))
  } finally {
    await gateway.close()
    await portico.stop()
    await server.close()
    folder[Symbol.dispose]()
  }
})

test.run()
