import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Authenticate } from '../../../dataplane/identity/index.ts'
import { verifyTokens } from '../../../dataplane/identity/verify.ts'
import { PublicError } from '../../../dataplane/server/errors.ts'
import { observeNothing } from '../../../dataplane/telemetry/observe.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { recordLog } from '../../support/kept-log.ts'

const MIB = 1024 * 1024
const AUDIENCE = 'https://portico.example'
setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/** Returns claims of many small objects: short as text, large in memory. */
const buildEmptyObjects = (count: number) => JSON.stringify(Array.from({ length: count }, () => ({})))

/** Starts an issuer whose introspection reports every token as active, with one more claim (JSON text). */
async function startIssuer(more: string) {
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.end(
        JSON.stringify({ issuer, jwks_uri: `${issuer}/keys`, introspection_endpoint: `${issuer}/introspect` }),
      )
      return
    }
    const exp = Math.floor(Date.now() / 1000) + 3600
    const claims = { active: true, iss: issuer, aud: AUDIENCE, sub: 'somebody', exp }
    request.resume().on('end', () => response.end(`${JSON.stringify(claims).slice(0, -1)},"more":${more}}`))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { issuer, close: () => server.close() }
}

const heap = () => {
  collect()
  return process.memoryUsage().heapUsed
}

/** Sends tokens of such an issuer, each twice; returns the answers and the growth of the process's memory in bytes. */
async function sendTokens(count: number, more: string) {
  using folder = temporaryFolder({ secret: 'client-secret' })
  const { issuer, close } = await startIssuer(more)
  const introspection = { clientId: 'portico', clientSecretFile: `${folder.path}/secret`, url: `${issuer}/introspect` }
  const { log } = recordLog()
  const authenticate = verifyTokens([{ issuer, audience: AUDIENCE, introspection }], {
    realm: 'test',
    resourceMetadataUrl: () => undefined,
    log,
    observe: observeNothing,
  })
  const outcomes = new Set<string>()
  try {
    const before = heap()
    for (let sent = 0; sent < 2 * count; sent++) {
      const authorization = `Bearer ${'opaque-'.repeat(8)}${sent % count}`
      outcomes.add(await send(authenticate, authorization))
    }
    return { outcomes: [...outcomes], heapBytes: heap() - before }
  } finally {
    await authenticate.close()
    close()
  }
}

/** Returns how a caller with this header is admitted, or why not. */
const send = async (authenticate: Authenticate, authorization: string): Promise<string> => {
  try {
    return (await authenticate(authorization)).kind
  } catch (error) {
    return formatRefusal(error)
  }
}

const formatRefusal = (error: unknown): string => {
  assert.instance(error, PublicError)
  return `${(error as PublicError).code}: ${(error as PublicError).message}`
}

test('cached tokens are counted by their size in memory, not by the length of their text', async () => {
  const { outcomes, heapBytes } = await sendTokens(600, buildEmptyObjects(4_000))
  assert.equal(outcomes, ['authenticated'])
  assert.ok(heapBytes < 96 * MIB, `${(heapBytes / MIB).toFixed(0)} MiB are held`)
})

test('a user may be in a thousand groups', async () => {
  const groups = Array.from({ length: 1_000 }, (_, index) => `/department/${index}/engineering`)
  const { outcomes } = await sendTokens(1, JSON.stringify(groups))
  assert.equal(outcomes, ['authenticated'])
})

test('large claims are counted the same way', async () => {
  const { outcomes, heapBytes } = await sendTokens(20, buildEmptyObjects(20_000))
  assert.equal(outcomes, ['authenticated'])
  assert.ok(heapBytes < 64 * MIB, `${(heapBytes / MIB).toFixed(0)} MiB are held`)
})

test.run()
