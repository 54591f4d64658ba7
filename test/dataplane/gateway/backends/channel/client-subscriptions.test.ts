import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  applySubscription,
  type ClientSubscriptions,
  wantsLogLevel,
} from '../../../../../dataplane/gateway/backends/channel/channel-client.ts'

const createEmpty = (): ClientSubscriptions => ({ subscribed: new Set(), level: undefined })

const ask = (method: string, params: Record<string, unknown>) => ({
  text: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  method,
  params,
})

test('a subscription ends at the server with its last subscriber', () => {
  const one = createEmpty()
  const two = createEmpty()
  for (const [subscriptions, other] of [
    [one, two],
    [two, one],
  ] as const)
    assert.ok(applySubscription(subscriptions, [other], ask('resources/subscribe', { uri: 'a:b' })))
  assert.is(applySubscription(one, [two], ask('resources/unsubscribe', { uri: 'a:b' })), undefined)
  assert.not(one.subscribed.has('a:b'))
  assert.ok(applySubscription(two, [one], ask('resources/unsubscribe', { uri: 'a:b' })))
})

test('the server gets the lowest log level that any client wants', () => {
  const one = createEmpty()
  const two = createEmpty()
  const readLevel = (text: string | undefined) => JSON.parse(text ?? '{}').params.level
  assert.is(readLevel(applySubscription(one, [two], ask('logging/setLevel', { level: 'error' }))), 'error')
  assert.is(readLevel(applySubscription(two, [one], ask('logging/setLevel', { level: 'debug' }))), 'debug')
  assert.is(readLevel(applySubscription(one, [two], ask('logging/setLevel', { level: 'alert' }))), 'debug')
  assert.not(wantsLogLevel(one, 'error'))
  assert.ok(wantsLogLevel(two, 'debug'))
  assert.ok(wantsLogLevel(createEmpty(), 'debug'))
})

test('all other messages pass unchanged', () => {
  for (const [method, params] of [
    ['tools/call', { name: 'x' }],
    ['logging/setLevel', { level: 'loud' }],
    ['resources/unsubscribe', { uri: 5 }],
  ] as const) {
    const request = ask(method, params)
    assert.is(applySubscription(createEmpty(), [], request), request.text)
  }
})

test.run()
