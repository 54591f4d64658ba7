/** Tests backends that send any JSON anywhere: only that message or call fails, and the next call is served as before. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { postPlainly } from '../../../support/gateway/plain-post.ts'
import { BASE_HEADERS, modern, openSession, post, rpc } from '../../../support/gateway/post.ts'
import { buildVariants, digest, takeSample, WRONG_VALUES } from '../../../support/gateway/wrong-values.ts'
import { ANSWERS, RESULTS, UNASKED } from '../../../support/servers/backend-messages.ts'
import {
  answer,
  OK_RESULT,
  type RawRequest,
  type RawServer,
  startRawServer,
} from '../../../support/servers/raw-server.ts'

/** Below the gateway's limit of concurrent calls for one caller. */
const AT_ONCE = 20
const CAN_BE_ASKED = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }

/** A backend of one era with one tool, and a gateway in front of it; each test sets the answers. */
class Hostile {
  readonly backend: RawServer
  readonly gateway: GatewayUnderTest
  /** Replacements for the usual answers, by method. */
  readonly said: Map<string, (request: RawRequest, res: ServerResponse) => string | undefined>
  /** Streams on which the backend may send unrequested messages. */
  readonly streams: Set<ServerResponse>
  #session: Record<string, string> | undefined
  #calls = 0

  private constructor(parts: Pick<Hostile, 'backend' | 'gateway' | 'said' | 'streams'>) {
    this.backend = parts.backend
    this.gateway = parts.gateway
    this.said = parts.said
    this.streams = parts.streams
  }

  static async start(era: 'legacy' | 'modern', role: 'gateway' | 'proxy'): Promise<Hostile> {
    const said: Hostile['said'] = new Map()
    const streams = new Set<ServerResponse>()
    const backend = await startRawServer({
      era,
      call: (request) => answer(request, OK_RESULT),
      before(request, res) {
        const { method = '' } = request.message
        if (request.method === 'GET' || method === 'subscriptions/listen') {
          res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
          streams.add(res)
          res.once('close', () => streams.delete(res))
          return true
        }
        const own = said.get(method)
        const result = era === 'legacy' && method === 'server/discover' ? undefined : RESULTS[method]
        if (own === undefined && result === undefined) return false
        const text = own === undefined ? answer(request, JSON.stringify(result)) : own(request, res)
        if (text !== undefined) {
          const session = method === 'initialize' ? { 'mcp-session-id': `s${backend.seen.length}` } : {}
          res.writeHead(200, { 'content-type': 'application/json', ...session }).end(text)
        }
        return true
      },
    })
    const gateway = await startGateway({
      role,
      backends: [{ name: 'b', url: backend.url, timeout: '3s' }],
      failureHandling: { circuitBreaker: { enabled: false } },
    })
    const hostile = new Hostile({ backend, gateway, said, streams })
    await hostile.hasLists()
    return hostile
  }

  async hasLists(): Promise<void> {
    await eventually('its lists', async () => (await this.gateway.status()).backends[0]?.tools === 1)
  }

  async session(): Promise<Record<string, string>> {
    if (this.#session !== undefined) return this.#session
    const start = { protocolVersion: '2025-11-25', capabilities: CAN_BE_ASKED, clientInfo: { name: 'n', version: '1' } }
    const { headers } = await post(this.gateway.url, rpc('initialize', start, 0))
    this.#session = {
      'mcp-session-id': headers.get('mcp-session-id') as string,
      'mcp-protocol-version': '2025-11-25',
    }
    return this.#session
  }

  /** Calls the tool as a client of each era; `which` in the arguments identifies the call. The answer must be well-formed. */
  async call(what: string, which = 0): Promise<void> {
    const params = { name: 't', arguments: { which } }
    const { body, headers } = modern('tools/call', params)
    const asked = body.replace(
      '"io.modelcontextprotocol/clientCapabilities":{}',
      () => `"io.modelcontextprotocol/clientCapabilities":${JSON.stringify(CAN_BE_ASKED)}`,
    )
    this.#calls += 1
    const inSession = rpc('tools/call', { ...params, _meta: { progressToken: which } }, this.#calls)
    const session = await this.session()
    await Promise.all([this.#orderly(asked, headers, what), this.#orderly(inSession, session, what)])
  }

  async #orderly(body: string, headers: Record<string, string>, what: string): Promise<void> {
    // A client that gets a question does not answer it, but disconnects.
    const sent = { url: this.gateway.url, headers: { ...BASE_HEADERS, ...headers }, body, leaveAfterMs: 250 }
    const given = await postPlainly(sent)
    assert.ok(given === undefined || [200, 400, 404].includes(given.status), `${given?.status} for ${what}`)
    assert.not.match(given?.text ?? '', /node:internal|\.ts:\d/, what)
  }

  /** Makes a call for each item, several at once; `say` answers it. */
  async callEach<One extends { readonly what: string }>(
    all: readonly One[],
    say: (one: One, request: RawRequest, res: ServerResponse) => string | undefined,
  ): Promise<void> {
    await this.session()
    for (let at = 0; at < all.length; at += AT_ONCE) {
      const some = all.slice(at, at + AT_ONCE)
      this.said.set('tools/call', (request, res) => {
        const { which = 0 } = (request.message.params?.['arguments'] ?? {}) as { which?: number }
        // An abandoned call may arrive late, with a number that this group lacks.
        return say((some[which] ?? some[0]) as One, request, res)
      })
      await Promise.all(some.map(({ what }, which) => this.call(what, which)))
    }
  }

  async isServedAsBefore(what: string): Promise<void> {
    this.said.clear()
    const { body, headers } = modern('tools/call', { name: 't' })
    const good = async () => (await post(this.gateway.url, body, headers)).json?.result !== undefined
    await eventually(`a good call after ${what}`, good)
    const faults = this.gateway.lines.splice(0).filter(({ level }) => level === 'error')
    assert.is(faults.map(({ msg, err }) => `${msg} ${JSON.stringify(err)}`).join('\n'), '', `a fault after ${what}`)
  }

  async close(): Promise<void> {
    await this.gateway.close()
    await this.backend.close()
  }
}

const withId = (text: string, { message }: RawRequest) => text.replaceAll('"ID"', JSON.stringify(message.id))
const events = (...texts: string[]) => texts.map((text) => `data: ${text}\n\n`).join('')

type Era = 'legacy' | 'modern'

async function inEra(era: Era, run: (hostile: Hostile, era: Era) => Promise<void>): Promise<void> {
  const hostile = await Hostile.start(era, 'proxy')
  try {
    await run(hostile, era)
  } catch (error) {
    ;(error as Error).message = `${era}: ${(error as Error).message}`
    throw error
  } finally {
    await hostile.close()
  }
}

/** Registers a test of a backend of each era, both at once. */
const stage = (name: string, run: (hostile: Hostile, era: Era) => Promise<void>) =>
  test(name, async () => {
    const outcomes = await Promise.allSettled((['legacy', 'modern'] as const).map((era) => inEra(era, run)))
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  })

for (const [index, message] of ANSWERS.entries())
  stage(`any JSON in an answer to a call (${index})`, async (hostile) => {
    const variants = buildVariants({ jsonrpc: '2.0', id: 'ID', ...message })
    await hostile.callEach(variants, ({ text }, request) => withId(text, request))
    await hostile.isServedAsBefore('answers')
  })

for (const message of UNASKED)
  stage(`any JSON in ${(message as { method: string }).method} before an answer`, async (hostile) => {
    const all = buildVariants(message)
    // Ten messages on each stream save requests.
    const groups = Array.from({ length: Math.ceil(all.length / 10) }, (_, at) => {
      const some = all.slice(at * 10, at * 10 + 10)
      return { what: some.map(({ what }) => what).join(), texts: some.map(({ text }) => text) }
    })
    await hostile.callEach(groups, ({ texts }, request, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.end(events(...texts, answer(request, OK_RESULT)))
      return undefined
    })
    await hostile.isServedAsBefore('messages before an answer')
  })

stage('any JSON on streams of no call', async (hostile) => {
  const session = await openSession(hostile.gateway.url)
  const listening = await EventReader.listen(hostile.gateway.url, session)
  await post(hostile.gateway.url, rpc('tools/call', { name: 't' }), session)
  const watching = await EventReader.watch(hostile.gateway.url, ['test://a'])
  await eventually('streams of the backend', () => hostile.streams.size >= 3)
  const good = JSON.stringify(UNASKED.find((one) => JSON.stringify(one).includes('resources/updated')))
  for (const message of UNASKED) {
    const before = watching.messages.length
    for (const stream of hostile.streams) stream.write(events(...buildVariants(message).map(({ text }) => text), good))
    await eventually('what comes behind it', () => watching.messages.length > before)
  }
  await hostile.isServedAsBefore('streams')
  await listening.leave()
  await watching.leave()
})

const OPENING = { legacy: 'initialize', modern: 'server/discover' }
for (const asked of ['its opening', 'tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'])
  stage(`any JSON in its answer to ${asked}`, async (hostile, era) => {
    const opening = OPENING[era]
    const method = asked === 'its opening' ? opening : asked
    for (const { text, what } of takeSample(
      buildVariants({ jsonrpc: '2.0', id: 'ID', result: RESULTS[method] as object }),
    )) {
      hostile.said.set(method, (request) => withId(text, request))
      const before = hostile.backend.calls('tools/list').length
      if (method === opening)
        await openSession(hostile.gateway.url).then((session) =>
          post(hostile.gateway.url, rpc('tools/call', { name: 't' }), session),
        )
      for (const stream of hostile.streams)
        stream.write(events('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'))
      if (hostile.streams.size > 0)
        await eventually(`a look (${what})`, () => hostile.backend.calls('tools/list').length > before, 100).catch(
          () => {},
        )
      await hostile.call(what)
    }
    await hostile.isServedAsBefore(method)
  })

stage('HTTP answers that are not MCP', async (hostile) => {
  const types = ['', 'text/html', 'application/json; charset=x', 'text/event-stream', 'application/json']
  const texts = ['', 'x', '{}', ...WRONG_VALUES.slice(0, 12), 'id: 1\nretry: 99999999999999\ndata: {}\n\n']
  const all = [200, 201, 204, 301, 400, 401, 404, 418, 500, 503].flatMap((status) =>
    types.flatMap((type) => texts.map((text) => ({ status, type, text, what: `${status} ${type} ${text}` }))),
  )
  const some = all.filter(({ status, type, text }) => digest(`${status}${type}${text}`) % 6 === 0)
  await hostile.callEach(some, ({ status, type, text }, _request, res) => {
    res.writeHead(status, type === '' ? {} : { 'content-type': type, 'mcp-session-id': 'é' })
    res.end(status === 204 ? undefined : text)
    return undefined
  })
  await hostile.isServedAsBefore('HTTP')
})

test.run()
