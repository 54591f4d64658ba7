/** Changes a backend's address, headers or CA: pending calls and streams finish at the old one. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import {
  answer,
  OK_RESULT,
  type RawRequest,
  type RawServer,
  startRawServer,
} from '../../../support/servers/raw-server.ts'

type PendingRequest = { readonly request: RawRequest; readonly res: ServerResponse }

/** Starts a server whose calls with `hold` are answered by the test. */
async function startHolding(era: 'legacy' | 'modern'): Promise<RawServer & { readonly pending: PendingRequest[] }> {
  const pending: PendingRequest[] = []
  const server = await startRawServer({
    era,
    call(request, res) {
      if (!request.body.includes('"hold"')) return answer(request, OK_RESULT)
      pending.push({ request, res })
      return undefined
    },
  })
  return Object.assign(server, { pending })
}

for (const era of ['legacy', 'modern'] as const)
  for (const what of ['headers', 'url'] as const)
    test(`${era}: new calls use the new ${what}, running calls finish, and then their sessions end`, async () => {
      const before = await startHolding(era)
      const after = what === 'url' ? await startHolding(era) : before
      const backend = { name: 'b', url: before.url, headers: { 'x-key': 'old' } }
      const gateway = await startGateway({ backends: [backend] })
      try {
        const session = await openSession(gateway.url)
        const params = { name: 'b_t', arguments: { hold: 1 } }
        const waiting = [
          post(gateway.url, rpc('tools/call', params, 5), session).then(({ text }) => text),
          postModern(gateway.url, 'tools/call', params).then(({ text }) => text),
        ]
        await eventually('both are held', () => before.pending.length === 2)
        const next = { ...backend, url: after.url, headers: { 'x-key': 'new' } }
        await gateway.configure({ backends: [next] })
        await eventually('a call by the new one', async () => {
          assert.ok((await postModern(gateway.url, 'tools/call', { name: 'b_t' })).json.result)
          return after.calls('tools/call').at(-1)?.headers['x-key'] === 'new'
        })
        assert.ok((await post(gateway.url, rpc('tools/call', { name: 'b_t' }, 6), session)).text.includes('"result"'))
        const listDeletes = () =>
          before.seen.filter(({ method, headers }) => method === 'DELETE' && headers['x-key'] === 'old')
        assert.is(listDeletes().length, 0, 'a session was ended below its call')
        for (const { request, res } of before.pending)
          res.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, OK_RESULT))
        for (const text of await Promise.all(waiting)) assert.match(text, /"text":"ok"/)
        if (era === 'legacy') await eventually('the old sessions end', () => listDeletes().length >= 2)
      } finally {
        await gateway.close()
        await before.close()
        if (after !== before) await after.close()
      }
    })

/** Starts a modern server with one resource, and the streams on which it reports changes. */
async function startWatched() {
  const streams = new Map<ServerResponse, unknown>()
  const server = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before(request, res) {
      const { method } = request.message
      const results: Record<string, object> = {
        'server/discover': {
          supportedVersions: ['2026-07-28'],
          capabilities: { tools: {}, resources: { subscribe: true } },
        },
        'resources/list': { resources: [{ uri: 'test://a', name: 'a' }] },
        'resources/templates/list': { resourceTemplates: [] },
      }
      if (method === 'subscriptions/listen') {
        res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        streams.set(res, request.headers['x-key'])
        res.once('close', () => streams.delete(res))
        return true
      }
      const result = results[method ?? '']
      if (result === undefined) return false
      const text = answer(request, JSON.stringify({ resultType: 'complete', ...result }))
      res.writeHead(200, { 'content-type': 'application/json' }).end(text)
      return true
    },
  })
  const update = () => {
    for (const stream of streams.keys())
      stream.write('data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://a"}}\n\n')
  }
  return { ...server, streams, update, close: server.close.bind(server) }
}

const isUpdate = ({ method }: { method?: unknown }) => method === 'notifications/resources/updated'

test('subscribers of a replaced backend are notified to list again, and get updates of the new one', async () => {
  const backend = await startWatched()
  const config = { name: 'b', url: backend.url }
  const gateway = await startGateway({ backends: [config] })
  const listen = () => EventReader.watch(gateway.url, ['test://a'])
  try {
    await postModern(gateway.url, 'resources/list')
    const first = await listen()
    await eventually('the message to arrive', () => first.messages.length === 1 && backend.streams.size === 1)
    await gateway.configure({ backends: [{ ...config, headers: { 'x-key': 'new' } }] })
    await eventually(
      'it ends with a result',
      () => first.ended && first.messages.at(-1)?.result?.resultType === 'complete',
    )
    const second = await listen()
    await eventually('it is heard again', () => second.messages.length === 1)
    backend.update()
    await eventually('the change', () => second.messages.some(isUpdate))
    await second.leave()
  } finally {
    await gateway.close()
    await backend.close()
  }
})

test('a session’s subscriptions move from a replaced backend to the new one', async () => {
  const backend = await startWatched()
  const config = { name: 'b', url: backend.url }
  const gateway = await startGateway({ backends: [config] })
  try {
    const session = await openSession(gateway.url)
    const listener = await EventReader.listen(gateway.url, session)
    assert.ok((await post(gateway.url, rpc('resources/subscribe', { uri: 'test://a' }), session)).json.result)
    await eventually('it is watched', () => backend.streams.size === 1)
    await gateway.configure({ backends: [{ ...config, headers: { 'x-key': 'new' } }] })
    await eventually('it is watched with the new key alone', () => [...backend.streams.values()].join() === 'new')
    backend.update()
    await eventually('the change', () => listener.messages.some(isUpdate))
    await post(gateway.url, rpc('resources/unsubscribe', { uri: 'test://a' }), session)
    await eventually('nothing is watched', () => backend.streams.size === 0)
    await listener.leave()
  } finally {
    await gateway.close()
    await backend.close()
  }
})

test.run()
