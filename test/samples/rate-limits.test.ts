/** Runs the sample of rate limits as its README describes. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayStatus } from '../../dataplane/config/status.ts'
import { temporaryFolder } from '../support/folder.ts'
import { ownHost } from '../support/gateway/own-host.ts'
import { postModern } from '../support/gateway/post.ts'
import { RunningPortico } from '../support/operator/running-portico.ts'

test('the second call of get-sum and the fourth call of all are limited', async () => {
  const folder = temporaryFolder()
  const portico = new RunningPortico(['samples/rate-limits', '--host', ownHost, '--state', `${folder.path}/state`])
  try {
    const { endpoints } = await portico.ready()
    const { url, admin } = endpoints.find(({ kind }) => kind === 'VirtualMCPServer') ?? { url: '', admin: '' }
    const call = async (name: string, args: object) =>
      (await postModern(url, 'tools/call', { name: `everything_${name}`, arguments: args })).json.result
    const sum = () => call('get-sum', { a: 2, b: 3 })
    const echo = () => call('echo', { message: 'hello' })
    assert.is((await sum()).isError, undefined)
    assert.ok((await sum()).structuredContent.retryAfterSeconds > 100)
    for (let createdCount = 0; createdCount < 2; createdCount++) assert.is((await echo()).isError, undefined)
    assert.ok((await echo()).structuredContent.retryAfterSeconds <= 100)
    const { rateLimits } = (await (await fetch(`${admin}/status`)).json()) as GatewayStatus
    assert.equal(
      rateLimits?.limits.map(({ refuses }) => refuses),
      [true, true],
    )
  } finally {
    portico.signal('SIGTERM')
    await portico.ended()
    folder[Symbol.dispose]()
  }
})

test.run()
