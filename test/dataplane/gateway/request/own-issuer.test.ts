import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { noAudit } from '../../../../dataplane/audit/event.ts'
import type { AuthServer } from '../../../../dataplane/authserver/index.ts'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import type { Loaded } from '../../../../dataplane/config/load.ts'
import { OwnIssuer } from '../../../../dataplane/gateway/request/own-issuer.ts'
import { PublicError } from '../../../../dataplane/server/errors.ts'
import { eventually } from '../../../support/eventually.ts'
import { keptLog } from '../../../support/kept-log.ts'

const OWN = { url: 'https://gateway.example/mcp', scopes: [] } as unknown as Parameters<OwnIssuer['follow']>[1]

/** Records which authorization server it replaced, and which one replaced it when it was closed. */
interface Told {
  readonly issuer: string
  readonly after: string | undefined
  closedFor?: string | undefined
  closed: number
}

/** Starts a gateway's authorization servers; those of the issuers in `failing` can't be loaded. */
function ownIssuer() {
  const failing = new Set<string>()
  const attempts: string[] = []
  const made: Told[] = []
  const { log, lines } = keptLog()
  const issuers = new OwnIssuer({
    ...{ log, audit: noAudit, memoryBytes: undefined },
    observe: () => {
      throw new Error('nothing is observed here')
    },
    async create({ config: { issuer } }, before) {
      attempts.push(issuer)
      if (failing.has(issuer)) throw new Error(`${issuer} can’t be had`)
      const told: Told = { issuer, after: (before as Told | undefined)?.issuer, closed: 0 }
      made.push(told)
      const close = async (next?: Told) => {
        told.closedFor = next?.issuer
        told.closed++
      }
      return Object.assign(told, { close }) as unknown as AuthServer
    },
  })
  const follow = (issuer?: string) => {
    const config = { name: 'g', namespace: 'default', ...(issuer !== undefined && { authServer: { issuer } }) }
    issuers.follow({ config, directory: '/' } as unknown as Loaded<GatewayConfig>, OWN, () => '127.0.0.1')
  }
  const current = async () => ((await issuers.current()) as Told | undefined)?.issuer
  return { issuers, failing, attempts, made, lines, follow, current }
}

const refused = (asked: Promise<unknown>) =>
  asked.then(
    () => assert.unreachable('it was let through'),
    (error: unknown) => {
      assert.instance(error, PublicError)
      assert.is((error as PublicError).code, 'unavailable')
    },
  )

test('an authorization server that could not be loaded is unavailable, and loaded again until it can be', async () => {
  const { issuers, failing, attempts, lines, follow, current } = ownIssuer()
  failing.add('a')
  follow('a')
  await refused(current())
  // During the pause the answer comes at once, without another attempt.
  for (let left = 100; left > 0; left--) await refused(current())
  assert.ok(attempts.length < 5, `${attempts.length} attempts`)
  await eventually('another attempt', () => attempts.length >= 2)
  assert.is(lines.filter(({ msg }) => msg === 'the authorization server can’t be loaded').length, 1)
  failing.clear()
  await eventually('it is loaded', () =>
    current()
      .catch(() => undefined)
      .then((issuer) => issuer === 'a'),
  )
  assert.ok(lines.some(({ msg }) => msg === 'the authorization server is loaded'))
  await issuers.close()
})

test('the replacement of one that could not be loaded continues from the last one that could', async () => {
  const { issuers, failing, made, attempts, follow, current } = ownIssuer()
  failing.add('b')
  follow('a')
  await current()
  follow('b')
  await refused(current())
  follow('c')
  assert.is(await current(), 'c')
  const before = attempts.filter((issuer) => issuer === 'b').length
  assert.equal(
    made.map(({ issuer, after }) => [issuer, after]),
    [
      ['a', undefined],
      ['c', 'a'],
    ],
  )
  await issuers.close()
  assert.equal(
    made.map(({ closed, closedFor }) => [closed, closedFor]),
    [
      [1, 'c'],
      [1, undefined],
    ],
  )
  assert.is(attempts.filter((issuer) => issuer === 'b').length, before, 'nobody loads what is in force no more')
})

test('if it is no longer configured, nothing is loaded and the last one is closed', async () => {
  const { issuers, failing, made, attempts, follow, current } = ownIssuer()
  follow('a')
  await current()
  failing.add('b')
  follow('b')
  await refused(current())
  follow()
  assert.is(await current(), undefined)
  follow('c')
  assert.is(await current(), 'c')
  await issuers.close()
  assert.equal(
    made.map(({ issuer, after, closed }) => [issuer, after, closed]),
    [
      ['a', undefined, 1],
      ['c', undefined, 1],
    ],
  )
  assert.equal(attempts, ['a', 'b', 'c'])
})

test('one that can’t be loaded does not delay the shutdown', async () => {
  const { issuers, failing, made, follow, current } = ownIssuer()
  follow('a')
  await current()
  failing.add('b')
  follow('b')
  await refused(current())
  await issuers.close()
  assert.equal(
    made.map(({ closed, closedFor }) => [closed, closedFor]),
    [[1, undefined]],
  )
})

test.run()
