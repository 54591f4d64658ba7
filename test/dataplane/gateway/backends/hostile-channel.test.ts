/** Tests servers on stdio and HTTP+SSE that send any JSON anywhere: only that message or call fails. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { postPlainly } from '../../../support/gateway/plain-post.ts'
import { BASE_HEADERS, modern, openSession, post, rpc } from '../../../support/gateway/post.ts'
import { buildVariants, takeSample, type Variant, WRONG_VALUES } from '../../../support/gateway/wrong-values.ts'
import { ANSWERS, RESULTS, UNASKED } from '../../../support/servers/backend-messages.ts'
import {
  type ChannelMessage,
  type ChannelServer,
  startSseChannel,
  startStdioServer,
  type Take,
} from '../../../support/servers/channel-server.ts'
import { OK_RESULT } from '../../../support/servers/raw-server.ts'

type Headers = Record<string, string>

const CAN_BE_ASKED = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }
const answerTo = ({ id }: ChannelMessage, result: string) =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`
const withId = (text: string, { id }: ChannelMessage) => text.replaceAll('"ID"', JSON.stringify(id))
/** Returns a quarter of the sampled variants, for calls that are made one after the other. */
const takeFew = (variants: readonly Variant[]) => takeSample(variants).filter((_, at) => at % 4 === 0)
const faultsIn = ({ lines }: GatewayUnderTest) =>
  lines.flatMap(({ level, msg, err }) => (level === 'error' ? [`${msg} ${JSON.stringify(err)}`] : []))

/** Answers as a valid server with sessions does, except for the methods in `said`. */
function answerWith(answers: ReadonlyMap<string, Take>): Take {
  return (message, say) => {
    const { id, method = '' } = message
    const own = answers.get(method)
    if (own !== undefined) own(message, say)
    else if (id === undefined || message.method === undefined) return
    else if (method === 'tools/call') say(answerTo(message, OK_RESULT))
    else if (method === 'server/discover') say(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"none"}}`)
    else say(answerTo(message, JSON.stringify(RESULTS[method] ?? {})))
  }
}

/** A server on a channel with one tool, and a gateway in front of it. */
class Hostile {
  readonly server: ChannelServer
  readonly gateway: GatewayUnderTest
  readonly answers: Map<string, Take>

  private constructor(server: ChannelServer, gateway: GatewayUnderTest, answers: Map<string, Take>) {
    this.server = server
    this.gateway = gateway
    this.answers = answers
  }

  static async start(startServer: (take: Take) => Promise<ChannelServer>): Promise<Hostile> {
    const answers = new Map<string, Take>()
    const server = await startServer(answerWith(answers))
    const gateway = await startGateway({
      role: 'proxy',
      backends: [{ name: 'b', timeout: '3s', ...server.config }],
      failureHandling: { circuitBreaker: { enabled: false } },
    })
    const hostile = new Hostile(server, gateway, answers)
    await eventually('its lists', async () => (await gateway.status()).backends[0]?.tools === 1)
    return hostile
  }

  async session(): Promise<Headers> {
    const start = { protocolVersion: '2025-11-25', capabilities: CAN_BE_ASKED, clientInfo: { name: 'n', version: '1' } }
    const { headers } = await post(this.gateway.url, rpc('initialize', start, 0))
    return { 'mcp-session-id': headers.get('mcp-session-id') as string, 'mcp-protocol-version': '2025-11-25' }
  }

  /** Calls the tool as a client of each era; `which` in the arguments identifies the call. */
  async call(which: number, session: Headers, what: string): Promise<void> {
    const params = { name: 't', arguments: { which } }
    const { body, headers } = modern('tools/call', params)
    const canBeAsked = `"io.modelcontextprotocol/clientCapabilities":${JSON.stringify(CAN_BE_ASKED)}`
    const answerable = body.replace('"io.modelcontextprotocol/clientCapabilities":{}', () => canBeAsked)
    const inSession = rpc('tools/call', { ...params, _meta: { progressToken: which } }, which)
    await Promise.all([this.#orderly(answerable, headers, what), this.#orderly(inSession, session, what)])
  }

  async #orderly(body: string, headers: Headers, what: string): Promise<void> {
    // A client that gets a question, or no answer, disconnects.
    const sent = { url: this.gateway.url, headers: { ...BASE_HEADERS, ...headers }, body, leaveAfterMs: 300 }
    const answer = await postPlainly(sent)
    assert.ok(answer === undefined || [200, 400, 404].includes(answer.status), `${answer?.status} for ${what}`)
    assert.not.match(answer?.text ?? '', /node:internal|\.ts:\d/, what)
  }

  async isServedAsBefore(what: string): Promise<void> {
    this.answers.clear()
    const { body, headers } = modern('tools/call', { name: 't' })
    const isAnswered = async () => (await post(this.gateway.url, body, headers)).json?.result !== undefined
    await eventually(`a good call after ${what}`, isAnswered)
    assert.is(faultsIn(this.gateway).join('\n'), '', `a fault after ${what}`)
  }

  async close(): Promise<void> {
    await this.gateway.close()
    await this.server.close()
  }
}

const AT_ONCE = 250
const splitIntoGroups = (variants: readonly Variant[], size: number): (readonly Variant[])[] =>
  Array.from({ length: Math.ceil(variants.length / size) }, (_, at) => variants.slice(at * size, (at + 1) * size))

for (const start of [startStdioServer, startSseChannel]) {
  const stage = (name: string, run: (hostile: Hostile) => Promise<void>) =>
    test(`${start === startStdioServer ? 'stdio' : 'sse'}: ${name}`, async () => {
      const hostile = await Hostile.start(start)
      try {
        await run(hostile)
      } finally {
        await hostile.close()
      }
    })

  for (const [index, message] of ANSWERS.entries())
    stage(`any JSON in an answer to a call (${index})`, async (hostile) => {
      const session = await hostile.session()
      for (const group of splitIntoGroups(buildVariants({ jsonrpc: '2.0', id: 'ID', ...message }), AT_ONCE)) {
        hostile.answers.set('tools/call', (request, say) => {
          const { which } = (request.params?.['arguments'] ?? {}) as { which?: number }
          say(withId((group[which ?? 0] ?? (group[0] as Variant)).text, request))
        })
        await Promise.all(group.map(({ what }, which) => hostile.call(which, session, what)))
      }
      await hostile.isServedAsBefore('answers')
    })

  stage('any JSON before an answer', async (hostile) => {
    const session = await hostile.session()
    for (const message of UNASKED)
      for (const group of splitIntoGroups(buildVariants(message), AT_ONCE)) {
        hostile.answers.set('tools/call', (request, say) => {
          for (const { text } of group) say(text)
          say(answerTo(request, OK_RESULT))
        })
        await hostile.call(1, session, group.map(({ what }) => what).join())
      }
    await hostile.isServedAsBefore('messages before an answer')
  })

  stage('any JSON that belongs to no call', async (hostile) => {
    const { gateway, server } = hostile
    const session = await hostile.session()
    const listening = await EventReader.listen(gateway.url, session)
    const { text } = await post(gateway.url, rpc('resources/subscribe', { uri: 'test://a' }), session)
    assert.match(text, /"result"/)
    const watching = await EventReader.watch(gateway.url, ['test://a'])
    await eventually('the acknowledgement', () => watching.messages.length > 0)
    const good = JSON.stringify(UNASKED.find((one) => JSON.stringify(one).includes('resources/updated')))
    for (const message of [...UNASKED, { jsonrpc: '2.0', id: 1, result: {} }, { jsonrpc: '2.0', id: 1, error: {} }]) {
      const countUpdates = (reader: EventReader) =>
        reader.messages.filter(({ method }) => method === 'notifications/resources/updated').length
      const before = [countUpdates(listening), countUpdates(watching)] as const
      for (const { text } of buildVariants(message)) server.say(text)
      server.say(good)
      await eventually(
        'the next message',
        () => countUpdates(listening) > before[0] && countUpdates(watching) > before[1],
      )
    }
    await hostile.isServedAsBefore('messages of no call')
    await listening.leave()
    await watching.leave()
  })

  stage('lines that are no messages', async (hostile) => {
    const session = await hostile.session()
    for (const value of [...WRONG_VALUES, '{', '}', '\u0000', '{"jsonrpc":"2.0","id":1,', '\ud800']) {
      hostile.answers.set('tools/call', (request, say) => {
        say(value)
        say(answerTo(request, OK_RESULT))
      })
      await hostile.call(1, session, value.slice(0, 40))
    }
    await hostile.isServedAsBefore('noise')
  })

  for (const method of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'])
    stage(`any JSON in its answer to ${method}`, async (hostile) => {
      const lists = () => hostile.server.messages.filter((message) => message.method === 'tools/list').length
      for (const { text } of takeFew(buildVariants({ jsonrpc: '2.0', id: 'ID', result: RESULTS[method] as object }))) {
        hostile.answers.set(method, (request, say) => say(withId(text, { id: request.id })))
        const before = lists()
        hostile.server.say('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        // While endless pages are read, the next poll waits.
        await eventually('a list request', () => lists() > before, 100).catch(() => {})
      }
      await hostile.isServedAsBefore(method)
    })
}

/** Each test starts its own server: one that fails to start is not restarted at once. */
for (const start of [startStdioServer, startSseChannel])
  for (const method of ['initialize', 'server/discover'])
    test(`${start === startStdioServer ? 'stdio' : 'sse'}: many servers whose ${method} is wrong, and one that is right`, async () => {
      const result = RESULTS[method] as object
      // Both channels parse messages alike, and each stdio server is a process.
      const most = start === startStdioServer ? 8 : 24
      const variants = takeSample(buildVariants({ jsonrpc: '2.0', id: 'ID', result })).slice(0, most)
      const wrong = variants.map(
        ({ text }) =>
          new Map([[method, (request: ChannelMessage, say: (text: string) => void) => say(withId(text, request))]]),
      )
      const servers = await Promise.all(
        [new Map<string, Take>(), ...wrong].map((answers) => start(answerWith(answers))),
      )
      const backends = servers.map(({ config }, index) => ({ name: `b${index}`, timeout: '3s', ...config }))
      const gateway = await startGateway({ backends })
      try {
        const { body, headers } = modern('tools/call', { name: 'b0_t' })
        await eventually(
          'the right one',
          async () => (await post(gateway.url, body, headers)).json?.result !== undefined,
        )
        await eventually('all have been called', async () => (await fetch(`${gateway.adminUrl}/readyz`)).ok)
        const session = await openSession(gateway.url)
        assert.match((await post(gateway.url, rpc('tools/call', { name: 'b0_t' }), session)).text, /"result"/)
        assert.is(faultsIn(gateway).join('\n'), '')
      } finally {
        await gateway.close()
        await Promise.all(servers.map((server) => server.close()))
      }
    })

test.run()
