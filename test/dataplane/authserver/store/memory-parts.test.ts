import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { noAudit } from '../../../../dataplane/audit/event.ts'
import { createAuthServer } from '../../../../dataplane/authserver/index.ts'
import { memoryParts } from '../../../../dataplane/authserver/store/memory-store.ts'
import { observeNothing } from '../../../../dataplane/telemetry/observe.ts'
import { temporaryFolder } from '../../../support/folder.ts'

/** Checks that an authorization server's memory bounds follow from the memory of its container. */

const MIB = 1024 * 1024

function inAll(memoryBytes?: number): number {
  const { records, tokens } = memoryParts(memoryBytes)
  return (
    (records.clients +
      records.pending +
      records.pages +
      records.grants +
      records.marks +
      records.clientMarks +
      records.proofMarks +
      records.clientKeys +
      tokens) /
    MIB
  )
}

test('a small container keeps less, and a large one no more than is useful', () => {
  for (const [memory, most] of [
    [64, 16],
    [192, 16],
    [256, 32],
    [512, 96],
    [1024, 224],
    [4096, 320],
  ] as const)
    assert.ok(Math.abs(inAll(memory * MIB) - most) < 0.001, `of ${memory} MiB: ${inAll(memory * MIB)}`)
  assert.is(inAll(), 320)
})

/** Stores 60 MiB of 1 KiB records and 60 MiB of token sets, and returns how many of each remain. */
async function countStored(memoryBytes: number | undefined): Promise<readonly number[]> {
  const issuer = 'https://gateway.example'
  using folder = temporaryFolder()
  const server = createAuthServer({
    config: {
      issuer,
      upstreamProviders: [
        { name: 'corp', type: 'oidc', oidcConfig: { issuerUrl: 'https://corp.example', clientId: 'c' } },
      ],
    },
    directory: folder.path,
    workload: { kind: 'gateway', namespace: 'default', name: 'tools' },
    own: { resource: `${issuer}/mcp`, audience: `${issuer}/mcp`, scopes: [], toolScopes: [] },
    memoryBytes,
    addressOf: () => undefined,
    audit: noAudit,
    observe: observeNothing,
    log: pino({ level: 'silent' }),
  })
  const { store, tokens } = server.serverState
  const names = Array.from({ length: 60_000 }, (_, index) => `n${index}`)
  const text = 'x'.repeat(1024)
  for (const name of names) {
    await store.set('grant', name, text, 600)
    const set = { owner: 'alice', subject: 'a', accessToken: text.slice(512) }
    await tokens.put({ login: name, provider: 'corp' }, set, { ttlMs: 600_000 })
  }
  const grants = await Promise.all(names.map((name) => store.get('grant', name)))
  const sets = await Promise.all(names.map((login) => tokens.get({ login, provider: 'corp' })))
  await server.close()
  return [grants, sets].map((found) => found.filter((one) => one !== undefined).length)
}

test('the limit follows the memory of the process', async () => {
  const [grants, sets] = (await countStored(256 * MIB)) as [number, number]
  assert.ok(grants > 5_000 && grants < 15_000, `${grants} grants`)
  assert.ok(sets > 2_000 && sets < 6_000, `${sets} sets of tokens`)
  const [more] = (await countStored(undefined)) as [number]
  assert.is(more, 60_000)
})

test.run()
