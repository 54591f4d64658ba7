/** Runs the sample of composite tools as its README describes. */

import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayStatus } from '../../dataplane/config/status.ts'
import { eventually } from '../support/eventually.ts'
import { linkPackages, temporaryFolder } from '../support/folder.ts'
import { ownHost } from '../support/gateway/own-host.ts'
import { postModern } from '../support/gateway/post.ts'
import { RunningPortico } from '../support/operator/running-portico.ts'

test('the workflow is a tool that calls its steps as its definition says', async () => {
  const folder = temporaryFolder()
  linkPackages(folder)
  const manifests = join(folder.path, 'manifests')
  cpSync(join(import.meta.dirname, '../../samples/workflows'), manifests, { recursive: true })
  const portico = new RunningPortico([manifests, '--host', ownHost, '--state', join(folder.path, 'state')])
  try {
    const { endpoints } = await portico.ready()
    const { url, admin } = endpoints.find(({ kind }) => kind === 'VirtualMCPServer') ?? { url: '', admin: '' }
    const listTools = async () => (await postModern(url, 'tools/list')).json.result?.tools ?? []
    await eventually('the workflow and the tools that it calls', async () => {
      const names = (await listTools()).map(({ name }) => name)
      return ['add-and-tell', 'everything_echo', 'everything_get-sum'].every((name) => names.includes(name))
    })
    const call = async (args: object) =>
      (await postModern(url, 'tools/call', { name: 'add-and-tell', arguments: args })).json
    const { result } = await call({ a: 2, b: 3, names: ['Ann', 'Bo'] })
    assert.is(result.isError, undefined)
    assert.equal(result.structuredContent, { sum: 'The sum of 2 and 3 is 5.', told: 2 })
    const wrong = await call({ a: 'two', b: 3, names: [] })
    assert.match(JSON.stringify(wrong), /must be of type number/)
    const { problems } = (await (await fetch(`${admin}/status`)).json()) as GatewayStatus
    assert.equal(problems, [])
    const definition = join(manifests, 'workflow.yaml')
    writeFileSync(definition, readFileSync(definition, 'utf8').replace(/description: Adds .*/, 'description: Changed.'))
    await eventually('the changed definition', async () => {
      const composite = (await listTools()).find(({ name }) => name === 'add-and-tell')
      return composite?.description === 'Changed.'
    })
  } finally {
    portico.signal('SIGTERM')
    await portico.ended()
    folder[Symbol.dispose]()
  }
})

test.run()
