import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Backend } from '../../../../../dataplane/gateway/backends/backend/backend.ts'
import { Budget } from '../../../../../dataplane/server/budget.ts'
import { eventually } from '../../../../support/eventually.ts'
import { recordLog } from '../../../../support/kept-log.ts'
import { type RawServer, startRawServer } from '../../../../support/servers/raw-server.ts'

let server: RawServer
let backend: Backend
test.before.each(async () => {
  server = await startRawServer({ era: 'legacy', call: () => undefined })
  backend = open()
})
const open = () =>
  new Backend({
    config: { name: 'b', url: server.url, transport: 'streamable-http' },
    directory: '.',
    defaultTimeout: '1m',
    client: { name: 'portico', version: '0' },
    log: recordLog().log,
    share: new Budget({ total: 1e6, share: 1e6, reserve: 0 }).shareOf('b'),
  })
test.after.each(async () => {
  await backend.close()
  await server.close()
})

const beforeEnd = () => Date.now() + 4 * 60_000
const afterEnd = () => Date.now() + 6 * 60_000
const countDeletes = () => server.seen.filter(({ method }) => method === 'DELETE').length

test('the requests of one caller share a session, which ends after a while without requests', async () => {
  const { callerSessions } = backend
  const session = callerSessions.acquireShared('ada')
  assert.is(callerSessions.acquireShared('ada'), session)
  assert.is.not(callerSessions.acquireShared('bob'), session)
  await session.open()
  callerSessions.release(session)
  callerSessions.sweep(afterEnd())
  assert.ok(session.opened !== undefined, 'a call is still under way')
  callerSessions.release(session)
  callerSessions.sweep(beforeEnd())
  assert.ok(session.opened !== undefined, 'it was used a moment ago')
  callerSessions.sweep(afterEnd())
  await eventually('its end at the backend', () => countDeletes() === 1)
  assert.is.not(callerSessions.acquireShared('ada'), session)
})

test('a session in use by a call is not shared, and the same caller’s next call gets it', async () => {
  const { callerSessions } = backend
  const [one, two] = [callerSessions.acquire('ada', '{"roots":{}}'), callerSessions.acquire('ada', '{"roots":{}}')]
  assert.is.not(one, two)
  await one.open()
  callerSessions.release(one)
  assert.is.not(callerSessions.acquire('bob', '{"roots":{}}'), one)
  assert.is.not(callerSessions.acquire('ada', '{"sampling":{}}'), one)
  assert.is(callerSessions.acquire('ada', '{"roots":{}}'), one)
  callerSessions.sweep(afterEnd())
  assert.ok(one.opened !== undefined, 'a call has it')
  callerSessions.release(one)
  callerSessions.sweep(afterEnd())
  await eventually('its end at the backend', () => countDeletes() === 1)
})

test('of many callers’ idle sessions, the longest idle ones end', async () => {
  const { callerSessions } = backend
  const links = Array.from({ length: 260 }, (_, index) => callerSessions.acquireShared(`caller-${index}`))
  for (const session of links) await session.open()
  const listEnded = () => links.map(({ opened }) => opened === undefined)
  for (const session of links.slice(0, 256)) callerSessions.release(session)
  assert.not(listEnded().includes(true))
  for (const session of links.slice(256)) callerSessions.release(session)
  assert.equal(listEnded(), [...Array(4).fill(true), ...Array(256).fill(false)])
  await eventually('their end at the backend', () => countDeletes() === 4)
  assert.is.not(callerSessions.acquireShared('caller-0'), links[0])
  assert.is(callerSessions.acquireShared('caller-4'), links[4])
})

test('a session that is returned to a removed backend ends', async () => {
  const gone = open()
  const { callerSessions } = gone
  const session = callerSessions.acquire('ada', '{}')
  await session.open()
  const closing = gone.close()
  callerSessions.release(session)
  await closing
  assert.is(session.opened, undefined)
})

test.run()
