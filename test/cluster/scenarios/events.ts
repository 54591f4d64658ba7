/** Events of objects that are created in any order, on a real API server. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gateway, group, type Manifest, manifest, proxy, server, telemetry } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()

const warnings = (name: string): readonly string[] =>
  stage.plane
    .list('events')
    .filter(({ type, involvedObject }) => type === 'Warning' && involvedObject?.name === name)
    .map(({ reason }) => reason)

test.before(() => stage.start())
test.after(() => stage.stop())

test('a reference that is created a moment later causes no warning, and one that stays missing causes one', async () => {
  // On a busy machine the referenced object may be created so late that a warning is right.
  for (let attempt = 0; ; attempt++) {
    const name = `late-${attempt}`
    const users: readonly Manifest[] = [gateway(name, name, name), server(name, name, name), proxy(name, name)]
    stage.apply(...users)
    for (const { kind } of users)
      await stage.waitForCondition(kind, name, 'ReferencesResolved', 'False ReferenceNotFound')
    const start = performance.now()
    stage.apply(
      group(name),
      telemetry(name),
      manifest('MCPRemoteProxy', `never-${attempt}`, {
        remoteUrl: 'https://mcp.example/mcp',
        telemetryConfigRef: { name: 'never' },
      }),
    )
    for (const { kind } of users) await stage.waitForCondition(kind, name, 'ReferencesResolved', 'True')
    const took = performance.now() - start
    await eventually(
      () => `${warnings(`never-${attempt}`)}` === 'ReferenceNotFound',
      'a warning about the lasting problem',
    )
    const messages = warnings(name)
    if (messages.length === 0) return
    assert.ok(attempt < 5 && took > 2_000, `within ${took} ms: ${messages}`)
  }
})

test.run()
