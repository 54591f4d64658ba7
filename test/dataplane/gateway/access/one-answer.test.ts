/**
 * Checks that denied and missing items are indistinguishable: by the bytes of the answer, and by the work for it, which
 * determines its time.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { engine } from '../../../../dataplane/policy/engine.ts'
import { eventually } from '../../../support/eventually.ts'
import { GuardedGateway } from '../../../support/gateway/guarded.ts'
import { openSession, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import { NOBODY, type PersonalServer, startPersonalServer } from '../../../support/servers/personal-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const eras = ['modern', 'legacy'] as const
const alice = { sub: 'alice' }
/** Pairs of an existing item that is denied and a missing one of the same length, for either backend. */
const pairs = (era: string): readonly (readonly [string, Record<string, unknown>, Record<string, unknown>])[] => [
  ['tools/call', { name: `${era}_t-${NOBODY}` }, { name: `${era}_t-nothing` }],
  ['tools/call', { name: `${era}_common`, arguments: { a: 1 } }, { name: `${era}_absent`, arguments: { a: 1 } }],
  ['prompts/get', { name: `${era}_p-${NOBODY}` }, { name: `${era}_p-nothing` }],
  ['resources/read', { uri: `${era}://${NOBODY}` }, { uri: `${era}://nothing` }],
  [
    'completion/complete',
    buildCompletion({ type: 'ref/prompt', name: `${era}_common` }),
    buildCompletion({ type: 'ref/prompt', name: `${era}_absent` }),
  ],
  [
    'completion/complete',
    buildCompletion({ type: 'ref/resource', uri: `${era}://common` }),
    buildCompletion({ type: 'ref/resource', uri: `${era}://absent` }),
  ],
  ...['resources/subscribe', 'resources/unsubscribe'].map(
    (method) => [method, { uri: `${era}://${NOBODY}` }, { uri: `${era}://nothing` }] as const,
  ),
]
function buildCompletion(ref: object) {
  return { ref, argument: { name: 'a', value: 'b' } }
}

/** The number of decisions that the engine was asked for. */
let decisions = 0
const run = engine.run.bind(engine)
engine.run = (use) =>
  run((cedar) =>
    use(
      new Proxy(cedar, {
        get(of, name: keyof typeof cedar) {
          if (name === 'statefulIsAuthorized') decisions++
          return of[name]
        },
      }),
    ),
  )

let servers: readonly PersonalServer[]
let guarded: GuardedGateway

test.before(async () => {
  servers = await Promise.all(eras.map((era) => startPersonalServer({ name: era, era, faults: [] })))
  guarded = await GuardedGateway.start(
    eras.map((era, index) => ({ name: era, url: (servers[index] as PersonalServer).url })),
    { policies: ['permit(principal, action, resource == Tool::"else");'] },
  )
  await guarded.gateway.listed()
})
test.after(async () => {
  await guarded.close()
  await Promise.all(servers.map((server) => server.close()))
})

/** Returns an answer without its date. */
const readVisible = ({ status, headers, text }: RpcAnswer) => ({
  status,
  headers: [...headers].filter(([name]) => name !== 'date'),
  text,
})

const countRequests = () => servers.reduce((sum, { seen }) => sum + seen.length, 0)

for (const client of eras)
  test(`${client} clients: denied and unknown names get the same bytes, take the same decisions and reach no backend`, async () => {
    const bearer = await guarded.bearer(alice)
    // Answers contain the request's id, so both requests use the same one.
    const own = { ...bearer, 'x-request-id': 'one' }
    const session = client === 'legacy' ? await openSession(guarded.url, own) : own
    const ask = (method: string, params: Record<string, unknown>) =>
      client === 'legacy'
        ? post(guarded.url, rpc(method, params), session)
        : postModern(guarded.url, method, params, session)
    const measure = async (method: string, params: Record<string, unknown>) => {
      const before = { requests: countRequests(), decisions }
      const answer = readVisible(await ask(method, params))
      return { answer, requests: countRequests() - before.requests, decisions: decisions - before.decisions }
    }
    for (const backend of eras)
      for (const [method, there, missing] of pairs(backend)) {
        if (client === 'modern' && method.includes('subscribe')) continue
        // The engine decides the first time; then the decision is cached.
        for (const most of [1, 0]) {
          const denied = await measure(method, there)
          const unknown = await measure(method, missing)
          assert.equal(denied, unknown, `${method} ${JSON.stringify(there)}`)
          assert.is(denied.answer.status, 403)
          assert.ok(denied.decisions <= most, 'nothing else is decided')
        }
      }
  })

test('until a backend has been listed, calls of denied and unknown names wait alike', async () => {
  const known = await startRawServer({
    era: 'modern',
    tools: [tool('allowed'), tool('denied')],
    call: (request) => answer(request, OK_RESULT),
  })
  const release: (() => void)[] = []
  const slow: RawServer = await startRawServer({
    era: 'modern',
    call: () => undefined,
    before: ({ message }) =>
      message.method === 'tools/list' && new Promise((resolve) => release.push(() => resolve(false))),
  })
  const policies = ['permit(principal, action, resource == Tool::"known_allowed");']
  const began = performance.now()
  const starting = await GuardedGateway.start(
    [
      { name: 'known', url: known.url },
      { name: 'slow', url: slow.url },
    ],
    { policies },
  )
  try {
    const backends = async () => (await starting.gateway.status()).backends
    await eventually(
      'one list, and not the other',
      async () => (await backends())[0]?.tools === 2 && release.length > 0,
    )
    const ended: string[] = []
    const call = (name: string) =>
      starting.modern(alice, 'tools/call', { name }).then(({ status }) => ended.push(`${name} ${status}`))
    const waiting = [call('known_denied'), call('known_absent')]
    await call('known_allowed')
    // They wait for at most three seconds.
    if (performance.now() - began < 3_000) assert.equal(ended, ['known_allowed 200'])
    for (const go of release) go()
    await Promise.all(waiting)
    assert.equal(ended.toSorted(), ['known_absent 403', 'known_allowed 200', 'known_denied 403'])
  } finally {
    for (const go of release) go()
    await starting.close()
    await Promise.all([known.close(), slow.close()])
  }
})

test.run()
