import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { noAudit } from '../../../../dataplane/audit/event.ts'
import type { AuthServer } from '../../../../dataplane/authserver/index.ts'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import type { Loaded } from '../../../../dataplane/config/load.ts'
import { OwnIssuer } from '../../../../dataplane/gateway/request/own-issuer.ts'
import { PublicError } from '../../../../dataplane/server/errors.ts'
import { eventually } from '../../../support/eventually.ts'
import { recordLog } from '../../../support/kept-log.ts'

const OWN = { url: 'https://gateway.example/mcp', scopes: [] } as unknown as Parameters<OwnIssuer['follow']>[1]

/** Records which authorization server it replaced, and which one replaced it when it was closed. */
interface IssuerLife {
  readonly issuer: string
  readonly after: string | undefined
  closedFor?: string | undefined
  closed: number
}

/** Starts a gateway's authorization servers; those of the issuers in `failing` can't be loaded. */
function ownIssuer() {
  const failing = new Set<string>()
  const attempts: string[] = []
  const built: IssuerLife[] = []
  const { log, lines } = recordLog()
  const issuers = new OwnIssuer({
    ...{ log, audit: noAudit, memoryBytes: undefined },
    observe: () => {
      throw new Error('nothing is observed here')
    },
    async create({ config: { issuer } }, before) {
      attempts.push(issuer)
      if (failing.has(issuer)) throw new Error(`${issuer} can’t be had`)
      const created: IssuerLife = { issuer, after: (before as IssuerLife | undefined)?.issuer, closed: 0 }
      built.push(created)
      const close = async (next?: IssuerLife) => {
        created.closedFor = next?.issuer
        created.closed++
      }
      return Object.assign(created, { close }) as unknown as AuthServer
    },
  })
  const follow = (issuer?: string) => {
    const config = { name: 'g', namespace: 'default', ...(issuer !== undefined && { authServer: { issuer } }) }
    issuers.follow({ config, directory: '/' } as unknown as Loaded<GatewayConfig>, OWN, () => '127.0.0.1')
  }
  const current = async () => ((await issuers.current()) as IssuerLife | undefined)?.issuer
  return { issuers, failing, attempts, built, lines, follow, current }
}

const expectRefused = (outcome: Promise<unknown>) =>
  outcome.then(
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
  await expectRefused(current())
  // During the pause the answer comes at once, without another attempt.
  for (let left = 100; left > 0; left--) await expectRefused(current())
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
  const { issuers, failing, built, attempts, follow, current } = ownIssuer()
  failing.add('b')
  follow('a')
  await current()
  follow('b')
  await expectRefused(current())
  follow('c')
  assert.is(await current(), 'c')
  const before = attempts.filter((issuer) => issuer === 'b').length
  assert.equal(
    built.map(({ issuer, after }) => [issuer, after]),
    [
      ['a', undefined],
      ['c', 'a'],
    ],
  )
  await issuers.close()
  assert.equal(
    built.map(({ closed, closedFor }) => [closed, closedFor]),
    [
      [1, 'c'],
      [1, undefined],
    ],
  )
  assert.is(
    attempts.filter((issuer) => issuer === 'b').length,
    before,
    'settings that are no longer in force are not loaded',
  )
})

test('if it is no longer configured, nothing is loaded and the last one is closed', async () => {
  const { issuers, failing, built, attempts, follow, current } = ownIssuer()
  follow('a')
  await current()
  failing.add('b')
  follow('b')
  await expectRefused(current())
  follow()
  assert.is(await current(), undefined)
  follow('c')
  assert.is(await current(), 'c')
  await issuers.close()
  assert.equal(
    built.map(({ issuer, after, closed }) => [issuer, after, closed]),
    [
      ['a', undefined, 1],
      ['c', undefined, 1],
    ],
  )
  assert.equal(attempts, ['a', 'b', 'c'])
})

test('one that can’t be loaded does not delay the shutdown', async () => {
  const { issuers, failing, built, follow, current } = ownIssuer()
  follow('a')
  await current()
  failing.add('b')
  follow('b')
  await expectRefused(current())
  await issuers.close()
  assert.equal(
    built.map(({ closed, closedFor }) => [closed, closedFor]),
    [[1, undefined]],
  )
})

test.run()
