/** Checks that streams end with the token that opened them. */
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { TokenHolder } from '../../../../dataplane/gateway/request/token-watch.ts'
import { TokenWatch } from '../../../../dataplane/gateway/request/token-watch.ts'
import type { Caller } from '../../../../dataplane/identity/index.ts'
import { PublicError } from '../../../../dataplane/server/errors.ts'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern, openSession, rpc } from '../../../support/gateway/post.ts'
import { buildLogMessage, Stage } from '../../../support/gateway/stage.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'

let stage: Stage
let provider: IdentityProvider
let gateway: GatewayUnderTest

test.before(async () => {
  provider = await startIdentityProvider()
  stage = await Stage.start()
  gateway = await startGateway({
    backends: [{ name: 'b', url: stage.backend.url, timeout: '1h' }],
    incomingAuth: { type: 'oidc', oidc: { issuer: provider.issuer, audience: 'us', allowPrivateIP: true } },
  })
  await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
})

test.after(async () => {
  for (const { res } of stage.calls) res.destroy()
  await gateway.close()
  await stage.backend.close()
  await provider.close()
})

/** Mints a token that is valid for `expiresIn` seconds and another 30 of clock skew; `expiresIn` may be negative. */
const mint = (expiresIn: number) => provider.mint({ aud: 'us' }, { expiresIn })
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

const stream = (token: string, body: string, headers: Record<string, string>) =>
  EventReader.open(gateway.url, { method: 'POST', headers: { ...BASE_HEADERS, ...headers, ...bearer(token) }, body })

test('each kind of stream ends when its token expires, and not before', async () => {
  const good = await mint(300)
  const session = await openSession(gateway.url, bearer(good))
  const other = await openSession(gateway.url, bearer(good))
  // Twenty seconds: enough to open all streams on a busy machine.
  const short = await mint(-10)
  const endsAt = (decodeJwt(short).exp as number) * 1000 + 30_000

  const listen = modern('subscriptions/listen', { notifications: { toolsListChanged: true } })
  const call = modern('tools/call', { name: 'b_t' })
  const listening = await stream(short, listen.body, listen.headers)
  const lasting = await stream(good, listen.body, listen.headers)
  const get = (token: string, at: Record<string, string>, after?: string) =>
    EventReader.listen(gateway.url, { ...at, ...bearer(token) }, after)
  const hearing = await get(short, session)
  // The backend's first message turns each of these calls into a stream; it sends no answer.
  const open = async (request: Promise<EventReader>) => {
    const before = stage.calls.length
    await eventually('the call at the backend', () => {
      if (stage.calls.length === before) return false
      stage.log('on its way')
      return true
    })
    return request
  }
  const withLevel = call.body.replace('"_meta":{', '"_meta":{"io.modelcontextprotocol/logLevel":"info",')
  const modernCall = await open(stream(short, withLevel, call.headers))
  const legacyCall = await open(stream(short, rpc('tools/call', { name: 'b_t' }, 7), session))
  const lost = await open(stream(good, rpc('tools/call', { name: 'b_t' }, 8), other))
  await eventually('events', () => [modernCall, legacyCall, lost].every(({ messages }) => messages.length > 0))
  await lost.leave()
  const resumed = await get(short, other, lost.lastId)

  const ending = { listening, hearing, modernCall, legacyCall, resumed }
  for (const [name, reader] of Object.entries(ending))
    if (Date.now() < endsAt) assert.not(reader.ended, `${name} goes on until then`)
  for (const [name, reader] of Object.entries(ending)) await eventually(`${name} to end`, () => reader.ended)
  assert.ok(Date.now() >= endsAt, 'not before its time')
  assert.not(lasting.ended)

  assert.is(listening.messages.at(-1)?.result.resultType, 'complete')
  assert.match(modernCall.messages.at(-1)?.error.message ?? '', /token has expired/)
  const countCancelled = () => stage.backend.calls('notifications/cancelled').length
  await eventually('the call without a client to be cancelled', () => countCancelled() === 1)

  // A call in a session continues, and its client resumes it with another token.
  const back = await get(good, session, legacyCall.lastId)
  stage.calls[1]?.res.write(`data: ${buildLogMessage('later')}\n\n`)
  await eventually('the later message', () => back.messages.some(({ params }) => params?.data === 'later'))
  await back.leave()
  await lasting.leave()
})

interface WatchedToken extends TokenHolder {
  ended: number
}

/** Returns a watch whose tokens are valid unless `answers` has another result. */
function createWatch(expiresAt = 10_000) {
  const answers = new Map<string, () => Caller | Promise<Caller>>()
  const checked: string[] = []
  const watch = new TokenWatch({
    authenticate: () => (token) => {
      checked.push(token as string)
      return answers.get(token as string)?.() ?? caller(token as string)
    },
    others: () => [],
    bindingOf: (of) => (of.kind === 'anonymous' ? '' : of.subject),
    onFault(error) {
      throw error
    },
  })
  const caller = (subject: string): Caller => ({
    kind: 'authenticated',
    issuer: 'i',
    subject,
    claims: {},
    expiresAt,
  })
  const hold = (token: string): WatchedToken => {
    const context = {
      req: { headers: { authorization: token } } as never,
      caller: caller(token),
      binding: token,
      isRemote: false,
      renew(next: Caller) {
        context.caller = next
      },
    }
    const holder: WatchedToken = {
      context,
      checkedAt: 0,
      ended: 0,
      tokenEnded() {
        holder.ended++
      },
    }
    watch.add(holder)
    return holder
  }
  return { watch, hold, checked, answers, caller }
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

test('a revoked token ends its streams; an issuer that is down ends none', async () => {
  const { watch, hold, checked, answers, caller } = createWatch()
  const [valid, revoked, unreachable, stolen] = [hold('kept'), hold('revoked'), hold('away'), hold('stolen')]
  answers.set('revoked', () => {
    throw new PublicError('unauthenticated')
  })
  answers.set('away', () => Promise.reject(new PublicError('unavailable')))
  answers.set('stolen', () => caller('another'))
  watch.sweep(0, 9_000)
  assert.equal(checked, [], 'tokens are not checked all the time')
  watch.sweep(0, 10_000)
  await nextTurn()
  assert.equal(
    [valid, revoked, unreachable, stolen].map(({ ended }) => ended),
    [0, 1, 0, 1],
  )
  watch.sweep(0, 20_000)
  await nextTurn()
  assert.equal(checked.slice(4), ['kept', 'away'], 'an ended token is not checked')
  watch.close()
})

test('a token’s streams end 30 seconds after its expiry, or later if it was prolonged', async () => {
  const { watch, hold, answers, caller } = createWatch(100)
  const [short, prolonged] = [hold('short'), hold('prolonged')]
  answers.set('prolonged', () => ({ ...caller('prolonged'), expiresAt: 500 }) as Caller)
  watch.sweep(0, 10_000)
  await nextTurn()
  watch.sweep(129_999, 10_001)
  assert.equal([short.ended, prolonged.ended], [0, 0])
  watch.sweep(130_000, 10_002)
  assert.equal([short.ended, prolonged.ended], [1, 0])
  watch.close()
})

test.run()
