/** If a backend refuses a credential that many calls were sent with, the gateway asks the provider once. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  buildExchangingBackend,
  type ExchangingGateway,
  startExchangingGateway,
} from '../../../support/gateway/exchanging-gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

const CALLS = 20

const listExchanges = ({ endpoint }: ExchangingGateway) =>
  endpoint.requests.filter(({ form }) => form['subject_token'] !== undefined).length

/** Starts a caller whose backend holds refusals back until `let` is called, and then sends them one after the other. */
async function startStage(era: 'modern' | 'legacy') {
  let isRefused: (authorization: string) => boolean = () => false
  const pending: (() => void)[] = []
  let noteArrival: () => void = () => undefined
  const raw = await startRawServer({
    era,
    call: (request) => answer(request, OK_RESULT),
    before: ({ headers, message }, res) => {
      if (message.method !== 'tools/call' || !isRefused(headers.authorization ?? '')) return false
      pending.push(() => res.writeHead(401).end())
      noteArrival()
      return true
    },
  })
  const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)])
  const headers = await gateway.bearer('alice')
  const session = era === 'legacy' ? await openSession(gateway.url, headers) : undefined
  const call = () =>
    session === undefined
      ? postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)
      : post(gateway.url, rpc('tools/call', { name: 'api_t' }), session)
  return {
    call,
    exchanges: () => listExchanges(gateway),
    calls: () => raw.calls('tools/call'),
    refuse: (which: typeof isRefused) => {
      isRefused = which
    },
    /** Resolves when this many refusals are held back. */
    holds: (count: number) =>
      new Promise<void>((resolve) => {
        noteArrival = () => pending.length >= count && resolve()
        noteArrival()
      }),
    release: () => pending.shift()?.(),
    async close() {
      await gateway.close()
      await raw.close()
    },
  }
}

for (const era of ['modern', 'legacy'] as const) {
  test(`${era}: if calls with one credential are refused one after another, a new one is obtained once`, async () => {
    const stage = await startStage(era)
    assert.ok((await stage.call()).json.result)
    const first = stage.calls().at(-1)?.headers.authorization
    const before = stage.exchanges()
    stage.refuse((authorization) => authorization === first)
    let answered = 0
    const calls = Array.from({ length: CALLS }, async () => {
      const { json } = await stage.call()
      answered++
      return json
    })
    await stage.holds(CALLS)
    for (let count = 1; count <= CALLS; count++) {
      stage.release()
      // The previous call is sent again and answered before the next is refused.
      while (answered < count) await new Promise((resolve) => setTimeout(resolve, 5))
    }
    for (const json of await Promise.all(calls)) assert.ok(json.result)
    assert.is(stage.exchanges() - before, 1)
    await stage.close()
  })
}

test.run()
