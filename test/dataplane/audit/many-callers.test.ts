/**
 * Makes many calls at once, some in one session with tokens of the same subject: each line of the audit log must name
 * its own caller.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Audited, AuditFile } from '../../support/audit/audit-file.ts'
import { eventually } from '../../support/eventually.ts'
import { GuardedGateway } from '../../support/gateway/guarded.ts'
import { openSession, post, postModern, rpc } from '../../support/gateway/post.ts'
import { createRandom } from '../../support/random.ts'
import { answer, type RawRequest, type RawServer, startRawServer } from '../../support/servers/raw-server.ts'

const USERS = 12
const PROGRAMS = ['desk', 'phone']
const policies = ['permit(principal, action, resource);', 'forbid(principal == Client::"user0", action, resource);']
const random = createRandom(15)

let file: AuditFile
let servers: readonly RawServer[] = []
let guarded: GuardedGateway

/** Answers in another order than the requests came in. */
async function call(request: RawRequest, res: Parameters<Parameters<typeof startRawServer>[0]['call']>[1]) {
  await new Promise((resolve) => setTimeout(resolve, random() * 20))
  const text = JSON.stringify({ content: [{ type: 'text', text: request.message.params?.['arguments'] }] })
  res.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, text))
}

test.before(async () => {
  file = await AuditFile.create()
  servers = await Promise.all(
    (['modern', 'legacy'] as const).map((era) =>
      startRawServer({
        era,
        call: (request, res) => {
          call(request, res).catch(() => res.destroy())
          return undefined
        },
      }),
    ),
  )
  guarded = await GuardedGateway.start(
    servers.map(({ url }, index) => ({ name: index === 0 ? 'm' : 'l', url })),
    { policies },
    { audit: { enabled: true, logFile: file.path, component: 'front', includeRequestData: true } },
  )
  await eventually('the tools', async () => (await guarded.gateway.status()).backends.every(({ tools }) => tools === 1))
})
test.after(async () => {
  await guarded?.close()
  await Promise.all(servers.map((server) => server.close()))
  await file.remove()
})

test('each line has the subject, the program, the tool, the arguments and the outcome of one call', async () => {
  const expected = new Map<string, readonly unknown[]>()
  const calls: (() => Promise<unknown>)[] = []
  for (let user = 0; user < USERS; user++) {
    const sub = `user${user}`
    const tokens = await Promise.all(PROGRAMS.map((azp) => guarded.bearer({ sub, azp })))
    const session = await openSession(guarded.url, tokens[0])
    for (const [index, token] of tokens.entries())
      for (const name of ['m_t', 'l_t'])
        for (const era of ['modern', 'legacy']) {
          const id = `${sub}-${PROGRAMS[index]}-${name}-${era}`
          const params = { name, arguments: { of: id } }
          const headers = { ...token, 'x-request-id': id }
          const outcome = user === 0 ? 'denied' : 'success'
          expected.set(id, [sub, PROGRAMS[index], name, outcome])
          calls.push(() =>
            era === 'modern'
              ? postModern(guarded.url, 'tools/call', params, headers)
              : post(guarded.url, rpc('tools/call', params), { ...session, ...headers }),
          )
        }
  }
  calls.sort(() => random() - 0.5)
  await Promise.all(calls.map((one) => one()))
  const ofCalls = (): readonly Audited[] => file.all.filter(({ type }) => type === 'mcp_tool_call')
  await eventually('a line for each call', () => ofCalls().length >= expected.size)
  assert.is(ofCalls().length, expected.size)
  for (const { request_id: id = '', subject, target, outcome, data } of ofCalls()) {
    assert.equal([subject?.id, subject?.client, target?.['name'], outcome], expected.get(id), id)
    assert.match(data?.request ?? '', JSON.stringify(id), id)
    expected.delete(id)
  }
  assert.is(expected.size, 0)
})

test.run()
