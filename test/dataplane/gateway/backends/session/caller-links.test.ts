import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Backend } from '../../../../../dataplane/gateway/backends/backend/backend.ts'
import { Budget } from '../../../../../dataplane/server/budget.ts'
import { eventually } from '../../../../support/eventually.ts'
import { keptLog } from '../../../../support/kept-log.ts'
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
    log: keptLog().log,
    share: new Budget({ total: 1e6, share: 1e6, reserve: 0 }).shareOf('b'),
  })
test.after.each(async () => {
  await backend.close()
  await server.close()
})

const soon = () => Date.now() + 4 * 60_000
const late = () => Date.now() + 6 * 60_000
const ended = () => server.seen.filter(({ method }) => method === 'DELETE').length

test('the requests of one caller share a session, which ends when none has been under way for a while', async () => {
  const { callerLinks } = backend
  const link = callerLinks.share('ada')
  assert.is(callerLinks.share('ada'), link)
  assert.is.not(callerLinks.share('bob'), link)
  await link.open()
  callerLinks.giveBack(link)
  callerLinks.sweep(late())
  assert.ok(link.opened !== undefined, 'a call is still under way')
  callerLinks.giveBack(link)
  callerLinks.sweep(soon())
  assert.ok(link.opened !== undefined, 'it was used a moment ago')
  callerLinks.sweep(late())
  await eventually('its end at the backend', () => ended() === 1)
  assert.is.not(callerLinks.share('ada'), link)
})

test('a session that a call has borrowed is no other’s, and the next call’s of the same caller', async () => {
  const { callerLinks } = backend
  const [one, two] = [callerLinks.borrow('ada', '{"roots":{}}'), callerLinks.borrow('ada', '{"roots":{}}')]
  assert.is.not(one, two)
  await one.open()
  callerLinks.giveBack(one)
  assert.is.not(callerLinks.borrow('bob', '{"roots":{}}'), one)
  assert.is.not(callerLinks.borrow('ada', '{"sampling":{}}'), one)
  assert.is(callerLinks.borrow('ada', '{"roots":{}}'), one)
  callerLinks.sweep(late())
  assert.ok(one.opened !== undefined, 'a call has it')
  callerLinks.giveBack(one)
  callerLinks.sweep(late())
  await eventually('its end at the backend', () => ended() === 1)
})

test('of the sessions of many callers that nobody uses, those that were not used for longest end', async () => {
  const { callerLinks } = backend
  const links = Array.from({ length: 260 }, (_, index) => callerLinks.share(`caller-${index}`))
  for (const link of links) await link.open()
  const ends = () => links.map(({ opened }) => opened === undefined)
  for (const link of links.slice(0, 256)) callerLinks.giveBack(link)
  assert.not(ends().includes(true))
  for (const link of links.slice(256)) callerLinks.giveBack(link)
  assert.equal(ends(), [...Array(4).fill(true), ...Array(256).fill(false)])
  await eventually('their end at the backend', () => ended() === 4)
  assert.is.not(callerLinks.share('caller-0'), links[0])
  assert.is(callerLinks.share('caller-4'), links[4])
})

test('what is given back to a backend that is gone ends', async () => {
  const gone = open()
  const { callerLinks } = gone
  const link = callerLinks.borrow('ada', '{}')
  await link.open()
  const closing = gone.close()
  callerLinks.giveBack(link)
  await closing
  assert.is(link.opened, undefined)
})

test.run()
