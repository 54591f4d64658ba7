import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { noteWish, type Wishes, wantsLevel } from '../../../../../dataplane/gateway/backends/channel/wishes.ts'

const nobody = (): Wishes => ({ subscribed: new Set(), level: undefined })

const ask = (method: string, params: Record<string, unknown>) => ({
  text: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  method,
  params,
})

test('a subscription ends at the server when the last who wanted it has ended its own', () => {
  const one = nobody()
  const two = nobody()
  for (const [wishes, other] of [
    [one, two],
    [two, one],
  ] as const)
    assert.ok(noteWish(wishes, [other], ask('resources/subscribe', { uri: 'a:b' })))
  assert.is(noteWish(one, [two], ask('resources/unsubscribe', { uri: 'a:b' })), undefined)
  assert.not(one.subscribed.has('a:b'))
  assert.ok(noteWish(two, [one], ask('resources/unsubscribe', { uri: 'a:b' })))
})

test('the server is asked for the lowest level that somebody wants', () => {
  const one = nobody()
  const two = nobody()
  const levelOf = (text: string | undefined) => JSON.parse(text ?? '{}').params.level
  assert.is(levelOf(noteWish(one, [two], ask('logging/setLevel', { level: 'error' }))), 'error')
  assert.is(levelOf(noteWish(two, [one], ask('logging/setLevel', { level: 'debug' }))), 'debug')
  assert.is(levelOf(noteWish(one, [two], ask('logging/setLevel', { level: 'alert' }))), 'debug')
  assert.not(wantsLevel(one, 'error'))
  assert.ok(wantsLevel(two, 'debug'))
  assert.ok(wantsLevel(nobody(), 'debug'))
})

test('everything else goes as it came', () => {
  for (const [method, params] of [
    ['tools/call', { name: 'x' }],
    ['logging/setLevel', { level: 'loud' }],
    ['resources/unsubscribe', { uri: 5 }],
  ] as const) {
    const request = ask(method, params)
    assert.is(noteWish(nobody(), [], request), request.text)
  }
})

test.run()
