/** Many callers with a credential each, at random: none gets another's call, list, stream or session. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { exchanging, startExchangingGateway } from '../../../support/gateway/exchanging-gateway.ts'
import { BASE_HEADERS, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { exchanged, respond, subjectOf } from '../../../support/network/token-endpoint.ts'
import { answer, type RawRequest, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const SEED = Number(process.env['ISOLATION_SEED'] ?? 15)
const SECONDS = Number(process.env['ISOLATION_SECONDS'] ?? 4)
const USERS = 200

/** Mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** Whose credential a request carries. */
const ownerOf = ({ headers }: Pick<RawRequest, 'headers'>): string =>
  /^Bearer of-(\w+)-for-\w+$/.exec(headers.authorization ?? '')?.[1] ?? 'nobody'

/** A backend that shows each caller a tool named after them, and whose sessions have one owner each. */
async function startPersonalServer(era: 'modern' | 'legacy', faults: string[]): Promise<RawServer> {
  const owners = new Map<string, string>()
  let sessions = 0
  return startRawServer({
    era,
    call: (request) => {
      const { name = '', arguments: args } = request.message.params as { name?: string; arguments?: { who?: string } }
      const owner = ownerOf(request)
      if (name !== `t-${owner}` || args?.who !== owner) faults.push(`${owner} called ${name} for ${args?.who}`)
      return answer(request, JSON.stringify({ resultType: 'complete', content: [{ type: 'text', text: owner }] }))
    },
    before: (request, res) => {
      const owner = ownerOf(request)
      const { method } = request.message
      const session = request.headers['mcp-session-id']
      if (typeof session === 'string' && owners.get(session) !== owner)
        faults.push(`${owner} is in the session of ${owners.get(session)}`)
      const json = (text: string, more = {}) =>
        res.writeHead(200, { 'content-type': 'application/json', ...more }).end(text)
      if (method === 'tools/list') {
        json(answer(request, `{"resultType":"complete","tools":[${tool(`t-${owner}`)}]}`))
        return true
      }
      if (method === 'initialize' && era === 'legacy') {
        const id = `session-${++sessions}`
        owners.set(id, owner)
        json(
          answer(
            request,
            '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}',
          ),
          { 'mcp-session-id': id },
        )
        return true
      }
      return false
    },
  })
}

test(`${USERS} users call at random for ${SECONDS} s (seed ${SEED}), and none meets another`, async () => {
  const random = randomOf(SEED)
  const faults: string[] = []
  const modern = await startPersonalServer('modern', faults)
  const legacy = await startPersonalServer('legacy', faults)
  const gateway = await startExchangingGateway((endpoint) => [
    exchanging('m', modern.url, endpoint, { clientSecretFile: undefined as never, clientId: undefined as never }),
    exchanging('l', legacy.url, endpoint, { clientSecretFile: undefined as never, clientId: undefined as never }),
  ])
  gateway.endpoint.answer = async ({ form }, response) => {
    await new Promise((resolve) => setTimeout(resolve, random() * 20))
    // Some end soon, so that they are exchanged again amid the calls.
    const life = random() < 0.3 ? 61 : 600
    respond(
      response,
      200,
      exchanged(`of-${subjectOf(form['subject_token'])}-for-${form['audience']}`, { expires_in: life }),
    )
  }
  const users = Array.from({ length: USERS }, (_one, index) => `user${index}`)
  let calls = 0
  let lists = 0
  const until = performance.now() + SECONDS * 1_000

  async function act(user: string, session: Record<string, string> | undefined): Promise<void> {
    const own = await gateway.bearer(user)
    const ask = (method: string, params: Record<string, unknown>) =>
      session === undefined
        ? postModern(gateway.url, method, params, own)
        : post(gateway.url, rpc(method, params), { ...BASE_HEADERS, ...session, ...own })
    if (random() < 0.3) {
      const { json } = await ask('tools/list', {})
      const names = ((json.result as { tools: { name: string }[] }).tools ?? []).map(({ name }) => name)
      if (names.join() !== `l_t-${user},m_t-${user}`) faults.push(`${user} is shown ${names.join()}`)
      lists++
      return
    }
    const backend = random() < 0.5 ? 'm' : 'l'
    const { json } = await ask('tools/call', { name: `${backend}_t-${user}`, arguments: { who: user } })
    const said = (json.result as { content?: { text: string }[] } | undefined)?.content?.[0]?.text
    if (said !== user) faults.push(`${user} got ${JSON.stringify(json)}`)
    calls++
    // A name of another's is unknown.
    if (random() < 0.1) {
      const other = users[Math.floor(random() * USERS)]
      const stolen = await ask('tools/call', { name: `m_t-${other}`, arguments: { who: user } })
      if (other !== user && stolen.json.error === undefined) faults.push(`${user} called a tool of ${other}`)
    }
  }

  async function worker(): Promise<void> {
    while (performance.now() < until) {
      const user = users[Math.floor(random() * USERS)] as string
      const session = random() < 0.3 ? await openSession(gateway.url, await gateway.bearer(user)) : undefined
      await act(user, session)
    }
  }
  await Promise.all(Array.from({ length: 16 }, worker))
  assert.equal(faults.slice(0, 5), [])
  assert.ok(calls > USERS, `${calls} calls`)
  assert.ok(lists > 50, `${lists} lists`)
  for (const { headers } of [...modern.seen, ...legacy.seen])
    if (headers.authorization !== undefined) assert.match(headers.authorization, /^Bearer of-user\d+-for-(m|l)$/)
  await gateway.close()
  await Promise.all([modern.close(), legacy.close()])
})

test.run()
