/** Stops gateways while clients with kept connections continue, behind a load balancer that learns of it late. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { serveGateway } from '../../../../dataplane/gateway/index.ts'
import { type DrainTimes, drainTimes } from '../../../../dataplane/server/listen/listen.ts'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { initialize, KeptClient, keepAsking, type ToolCall, visit } from '../../../support/gateway/kept-client.ts'
import { openSession } from '../../../support/gateway/post.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { startTcpFront } from '../../../support/network/tcp-front.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const SLOW_MS = 2_000
/** `ROLLOUTS=10 node test/run.ts endpoint/rollouts` runs ten and prints the number of requests. */
const ROLLOUTS = Number(process.env['ROLLOUTS'] ?? 4)
let backend: RawServer
let directory: string

test.before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'portico-rollouts-'))
  backend = await startRawServer({
    era: 'legacy',
    call(request, res) {
      const { slow } = (request.message.params?.['arguments'] ?? {}) as { slow?: boolean }
      const body = answer(request, OK_RESULT)
      if (!slow) return body
      setTimeout(() => res.writeHead(200, { 'content-type': 'application/json' }).end(body), SLOW_MS)
      return undefined
    },
  })
  const config: Partial<GatewayConfig> = {
    name: 'test',
    namespace: 'default',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    backends: [{ name: 'b', url: backend.url }],
  }
  await writeFile(join(directory, 'gateway.yaml'), JSON.stringify(config))
})
test.after(async () => {
  await backend.close()
  await rm(directory, { recursive: true })
})

async function start(preStop?: DrainTimes) {
  const { log } = recordLog()
  const at = { listen: '127.0.0.1:0', adminListen: '127.0.0.1:0', configFile: join(directory, 'gateway.yaml') }
  const served = await serveGateway({ ...at, stateDirectory: join(directory, 'state'), log, preStop })
  return {
    ...served,
    port: Number(new URL(served.url).port),
    ready: async () => readStatus(`${served.adminUrl}/readyz`),
  }
}

/** Returns the status, or 0 if nothing listens. */
const readStatus = (url: string): Promise<number> =>
  fetch(url, { headers: { connection: 'close' } }).then(
    ({ status }) => status,
    () => 0,
  )

const call = (slow: boolean): ToolCall => ({ name: 'b_t', arguments: { slow } })
test('rollouts under clients of both eras with kept connections lose nothing', async () => {
  // A gateway ends as soon as its clients have left, which takes them long on a slow machine.
  const times: DrainTimes = { noticeMs: 300, idleMs: 20_000, graceMs: 60_000 }
  let running = await start()
  const front = await startTcpFront(running.port)
  const url = `http://127.0.0.1:${front.port}/mcp`
  const isAnswer = (body: string) => body.includes('"ok"')
  const stopAsking = keepAsking({ url, clients: 20, pause: 20, call, isAnswer })
  for (let rollout = 0; rollout < ROLLOUTS; rollout++) {
    const next = await start()
    const ending = running.close(times)
    // The load balancer learns of it late.
    await delay(times.noticeMs / 2)
    front.choose(next.port)
    await ending
    running = next
  }
  const { visits, lost } = await stopAsking()
  assert.equal(lost, [], `of ${visits}`)
  assert.ok(visits > 50 * ROLLOUTS)
  if (process.env['ROLLOUTS']) console.log(`${ROLLOUTS} rollouts, ${visits} visits, ${lost.length} lost`)
  await front.close()
  await running.close()
})

test('a stopping gateway is not ready, serves meanwhile, tells each client, and exits when none is left', async () => {
  const gateway = await start()
  const idle = new KeptClient(`${gateway.url}/mcp`)
  const before = await idle.post(initialize)
  assert.is(before.headers.connection, 'keep-alive')
  const started = performance.now()
  const ended = gateway.close({ noticeMs: 400, idleMs: 60_000, graceMs: 120_000 })
  assert.is(await gateway.ready(), 503)
  const fresh = new KeptClient(`${gateway.url}/mcp`)
  assert.is((await fresh.post(initialize)).headers.connection, 'close')
  await delay(500)
  // The idle connection is not cut; its next answer says that it closes.
  const last = await idle.post(initialize)
  assert.is(last.status, 200)
  assert.is(last.headers.connection, 'close')
  await ended
  assert.ok(performance.now() - started < 30_000)
  assert.is(await gateway.ready(), 0)
})

test('a stream that a load balancer still sends here is served until the grace period is over', async () => {
  const gateway = await start()
  const session = await openSession(`${gateway.url}/mcp`)
  const ended = gateway.close({ noticeMs: 2_000, idleMs: 2_200, graceMs: 120_000 })
  const reader = await EventReader.listen(`${gateway.url}/mcp`, session)
  assert.is(reader.status, 200)
  await ended
})

test('a hook makes clients leave before the server container ends; if it does not end, everything continues', async () => {
  const gateway = await start({ noticeMs: 50, idleMs: 150, graceMs: 400 })
  const client = new KeptClient(`${gateway.url}/mcp`)
  const slow = visit(client, true, call(false))
  await slow
  const hook = fetch(`${gateway.adminUrl}/pre-stop`)
  await eventually(
    'the server announces the close',
    async () => (await visit(client, true, call(false))).headers.connection === 'close',
  )
  assert.is(await gateway.ready(), 200, 'one client cannot move other clients away')
  assert.is((await hook).status, 200)
  await eventually('it keeps connections again', async () => {
    const other = new KeptClient(`${gateway.url}/mcp`)
    const { headers } = await visit(other, true, call(false))
    other.close()
    return headers.connection === 'keep-alive'
  })
  assert.is(await readStatus(`${(await startedWithout()).adminUrl}/pre-stop`), 404)
  await gateway.close()
})

const others: { close(): Promise<void> }[] = []
async function startedWithout() {
  const other = await start()
  others.push(other)
  return other
}
test.after(async () => {
  for (const other of others) await other.close()
})

test('times fit into the grace period, however short', () => {
  for (const grace of [0, 1, 2, 5, 10, 20, 30, 300]) {
    const { noticeMs, idleMs, graceMs } = drainTimes(5, grace)
    assert.ok(noticeMs <= idleMs && idleMs <= graceMs && graceMs <= grace * 1000, String(grace))
  }
  assert.equal(drainTimes(5, 30), { noticeMs: 5_000, idleMs: 10_000, graceMs: 27_000 })
  assert.is(drainTimes(0, 30).idleMs, 0)
})

test.run()
