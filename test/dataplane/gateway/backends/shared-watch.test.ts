/** Clients that watch resources of one modern backend share one stream to it. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { answer, startRawServer } from '../../../support/servers/raw-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const RESULTS: Readonly<Record<string, string>> = {
  'server/discover':
    '"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"private"',
  'resources/list': `"resources":[${['a', 'b', 'c'].map((name) => `{"uri":"test://${name}","name":"${name}"}`)}],"ttlMs":0,"cacheScope":"private"`,
  'resources/templates/list': '"resourceTemplates":[],"ttlMs":0,"cacheScope":"private"',
}

interface Subscription {
  readonly uris: readonly string[]
  readonly res: ServerResponse
  open: boolean
}

type Answering = (uris: readonly string[], res: ServerResponse) => boolean

/** Starts a server; `refuses` may answer a subscription itself, and then returns true. */
async function startWatched(refuses: Answering = () => false) {
  const subscriptions: Subscription[] = []
  const requests: (readonly string[])[] = []
  const backend = await startRawServer({
    era: 'modern',
    call: () => undefined,
    before(request, res) {
      const { method = '', params } = request.message
      const result = RESULTS[method]
      if (result !== undefined) {
        res.writeHead(200, { 'content-type': 'application/json' })
        res.end(answer(request, `{"resultType":"complete",${result}}`))
        return true
      }
      if (method !== 'subscriptions/listen') return false
      const { resourceSubscriptions } = (params?.['notifications'] ?? {}) as { resourceSubscriptions?: string[] }
      requests.push(resourceSubscriptions ?? [])
      if (refuses(resourceSubscriptions ?? [], res)) return true
      const subscription: Subscription = { uris: resourceSubscriptions ?? [], res, open: true }
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      res.once('close', () => {
        subscription.open = false
      })
      subscriptions.push(subscription)
      return true
    },
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: backend.url }] })
  cleanups.push(
    () => backend.close(),
    () => gateway.close(),
  )
  await gateway.listed()
  const open = () => subscriptions.filter((subscription) => subscription.open)
  const watch = async (...uris: string[]): Promise<EventReader> => {
    const reader = await EventReader.watch(gateway.url, uris)
    cleanups.push(() => reader.leave())
    await eventually('the acknowledgement', () => reader.messages.length > 0)
    return reader
  }
  return { open, subscriptions, requests, watch, gateway }
}

const change = (subscription: Subscription | undefined, uri: string) =>
  subscription?.res.write(
    `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } })}\n\n`,
  )
const listChanged = ({ messages }: EventReader): unknown[] => messages.slice(1).map(({ params }) => params.uri)

test('all subscribers share one stream to the backend, and each gets its own updates', async () => {
  const { open, watch } = await startWatched()
  const one = await watch('test://a')
  const two = await watch('test://a', 'test://b')
  await eventually('one stream of both', () => open().length === 1 && open()[0]?.uris.length === 2)
  change(open()[0], 'test://a')
  change(open()[0], 'test://b')
  await eventually('both to be notified', () => listChanged(one).length === 1 && listChanged(two).length === 2)
  assert.equal([listChanged(one), listChanged(two)], [['test://a'], ['test://a', 'test://b']])
})

test('a subscriber that leaves does not affect the others; the stream ends with the last one', async () => {
  const { open, subscriptions, watch } = await startWatched()
  const one = await watch('test://a')
  const two = await watch('test://a')
  await eventually('the stream', () => open().length === 1)
  await one.leave()
  change(open()[0], 'test://a')
  await eventually('the other one to be notified', () => listChanged(two).length === 1)
  assert.is(subscriptions.length, 1, 'a resource that is watched already needs no other stream')
  await two.leave()
  await eventually('the stream to end', () => open().length === 0)
})

test('a stream that ends is reopened with all current subscriptions', async () => {
  const { open, subscriptions, watch } = await startWatched()
  const one = await watch('test://a')
  await eventually('the stream', () => open().length === 1)
  subscriptions[0]?.res.end()
  await eventually('the next stream', () => subscriptions.length === 2 && open().length === 1)
  change(open()[0], 'test://a')
  await eventually('the message to arrive', () => listChanged(one).length === 1)
})

const RPC_ERROR = '{"jsonrpc":"2.0","id":1000000000,"error":{"code":-32602,"message":"no such resource"}}'
/** The forms in which backends refuse a subscription. */
const refusals: Readonly<Record<string, (res: ServerResponse) => void>> = {
  'HTTP 400': (res) => res.writeHead(400).end(),
  'an error as JSON': (res) => res.writeHead(200, { 'content-type': 'application/json' }).end(RPC_ERROR),
  'an error on the stream': (res) =>
    res.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${RPC_ERROR}\n\n`),
}

for (const [how, refuse] of Object.entries(refusals))
  test(`a subscription that the backend refuses (${how}) does not affect other subscribers`, async () => {
    const { open, requests, watch } = await startWatched((uris, res) => {
      if (!uris.includes('test://b')) return false
      refuse(res)
      return true
    })
    const one = await watch('test://a')
    await eventually('the stream', () => open().length === 1)
    const two = await watch('test://b', 'test://c')
    await eventually('a stream of all but the refused one', () => {
      const [stream, more] = open()
      return more === undefined && stream?.uris.includes('test://a') === true && stream.uris.includes('test://c')
    })
    change(open()[0], 'test://a')
    change(open()[0], 'test://c')
    await eventually('both to be notified', () => listChanged(one).length === 1 && listChanged(two).length === 1)
    assert.equal([listChanged(one), listChanged(two)], [['test://a'], ['test://c']])
    const tries = requests.length
    const three = await watch('test://a')
    await three.leave()
    await watch('test://a')
    assert.is(requests.length, tries, 'a refused subscription is not requested again for others')
  })

test('a temporary refusal leaves the stream open', async () => {
  let refused = 0
  const { open, watch } = await startWatched((uris, res) => {
    if (!uris.includes('test://b') || refused > 0) return false
    refused++
    res.writeHead(503).end()
    // Two seconds later one stream for both replaces it.
    change(open()[0], 'test://a')
    return true
  })
  const one = await watch('test://a')
  await eventually('the stream', () => open().length === 1)
  await watch('test://b')
  await eventually('the refusal', () => refused === 1)
  await eventually('the first one to be notified', () => listChanged(one).length === 1)
  await eventually('a stream of both', () => open().length === 1 && open()[0]?.uris.length === 2)
})

test('a backend that refuses everything is asked a limited number of times', async () => {
  const { requests, watch, gateway } = await startWatched((_uris, res) => {
    res.writeHead(404).end()
    return true
  })
  await watch(...Array.from({ length: 200 }, (_, index) => `test://${index}`), 'test://a', 'test://b', 'test://c')
  const leftOut = () =>
    gateway.lines.reduce(
      (sum, { msg, resources }) => sum + (/refuses subscriptions/.test(String(msg)) ? Number(resources) : 0),
      0,
    )
  await eventually('all to be left out', () => leftOut() === 203)
  assert.ok(requests.length <= 40, `${requests.length} requests`)
})

test.run()
