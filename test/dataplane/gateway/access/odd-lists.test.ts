/** Checks that a policy's hidden items stay hidden however a backend formats its list. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { GuardedGateway } from '../../../support/gateway/guarded.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const policies = ['permit(principal, action, resource);', 'forbid(principal, action, resource == Tool::"b_hidden");']
const alice = { sub: 'alice' }
const JSON_TYPE = 'application/json'
const SSE_TYPE = 'text/event-stream'

interface Written {
  readonly type: string
  readonly body: string | Buffer
}

const buildList = (id: unknown, ...names: readonly string[]): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"resultType":"complete","tools":[${names.map((name) => tool(name)).join(',')}]}}`
const event = (data: string, end = '\n') => `data: ${data}${end}${end}`

/** Ways to write a list of `open` and `hidden`, as the answer to the request with this id. */
const ways: Readonly<Record<string, (id: unknown) => Written>> = {
  'a byte order mark before JSON': (id) => ({ type: JSON_TYPE, body: `\ufeff${buildList(id, 'open', 'hidden')}` }),
  'a byte order mark before the events': (id) => ({
    type: SSE_TYPE,
    body: `\ufeff${event(buildList(id, 'open', 'hidden'))}`,
  }),
  'a byte order mark in the event': (id) => ({
    type: SSE_TYPE,
    body: event(`\ufeff${buildList(id, 'open', 'hidden')}`),
  }),
  'two answers, one after the other': (id) => ({
    type: JSON_TYPE,
    body: buildList(id, 'open') + buildList(id, 'open', 'hidden'),
  }),
  'two answers in two events': (id) => ({
    type: SSE_TYPE,
    body: event(buildList(id, 'open')) + event(buildList(id, 'open', 'hidden')),
  }),
  'two answers in one event': (id) => ({
    type: SSE_TYPE,
    body: `data: ${buildList(id, 'open')}\ndata: ${buildList(id, 'open', 'hidden')}\n\n`,
  }),
  'one answer over two lines of an event': (id) => {
    const [head = '', tail = ''] = buildList(id, 'open', 'hidden').split('"tools":')
    return { type: SSE_TYPE, body: `data: ${head}"tools":\r\ndata: ${tail}\r\n\r\n` }
  },
  'events that end in CR': (id) => ({ type: SSE_TYPE, body: event(buildList(id, 'open', 'hidden'), '\r') }),
  'events without an end': (id) => ({ type: SSE_TYPE, body: `data: ${buildList(id, 'open', 'hidden')}` }),
  'JSON where events are announced': (id) => ({ type: SSE_TYPE, body: buildList(id, 'open', 'hidden') }),
  'events where JSON is announced': (id) => ({ type: JSON_TYPE, body: event(buildList(id, 'open', 'hidden')) }),
  'a type of plain text': (id) => ({ type: 'text/plain', body: buildList(id, 'open', 'hidden') }),
  'a type that nobody knows': (id) => ({ type: 'application/x-unknown', body: buildList(id, 'open', 'hidden') }),
  'no type': (id) => ({ type: '', body: buildList(id, 'open', 'hidden') }),
  'a type with parameters': (id) => ({
    type: 'Application/JSON; charset=utf-8',
    body: buildList(id, 'open', 'hidden'),
  }),
  'two types': (id) => ({ type: `${JSON_TYPE}, ${SSE_TYPE}`, body: buildList(id, 'open', 'hidden') }),
  'UTF-16': (id) => ({
    type: 'application/json; charset=utf-16',
    body: Buffer.from(`\ufeff${buildList(id, 'open', 'hidden')}`, 'utf16le'),
  }),
  'a member that stands there twice': (id) => ({
    type: JSON_TYPE,
    body: buildList(id, 'open').replace('"tools":', `"tools":[${tool('hidden')}],"tools":`),
  }),
  'a name that stands there twice': (id) => ({
    type: JSON_TYPE,
    body: buildList(id, 'open').replace('"name":"open"', '"name":"open","name":"hidden"'),
  }),
  'a name with an escape': (id) => ({
    type: JSON_TYPE,
    body: buildList(id, 'open', 'hidden').replace('"hidden"', '"\\u0068idden"'),
  }),
}

async function startStage(era: 'modern' | 'legacy', write: (id: unknown) => Written) {
  const backend: RawServer = await startRawServer({
    era,
    call: (request) => answer(request, OK_RESULT),
    before: ({ message }, res) => {
      if (message.method !== 'tools/list') return false
      const { type, body } = write(message.id)
      res.writeHead(200, type === '' ? {} : { 'content-type': type }).end(body)
      return true
    },
  })
  const guarded = await GuardedGateway.start([{ name: 'b', url: backend.url }], { policies })
  return { backend, guarded }
}

for (const era of ['modern', 'legacy'] as const) {
  test(`${era}: valid entries that are not hidden are listed`, async () => {
    const { backend, guarded } = await startStage(era, (id) => ({
      type: JSON_TYPE,
      body: buildList(id, 'open', 'hidden'),
    }))
    for (const ask of Object.values(guarded.eras)) {
      const { json } = await ask(alice, 'tools/list')
      assert.equal(
        json.result.tools.map(({ name }: { name: string }) => name),
        ['b_open'],
      )
    }
    await guarded.close()
    await backend.close()
  })

  for (const [what, write] of Object.entries(ways))
    test(`${era}: ${what}`, async () => {
      const { backend, guarded } = await startStage(era, write)
      await eventually('the list was requested', () => backend.calls('tools/list').length > 0)
      for (const [client, ask] of Object.entries(guarded.eras)) {
        const { text } = await ask(alice, 'tools/list')
        assert.not.match(text, /hidden|\\u0068idden/, client)
        for (const name of ['b_hidden', 'hidden'])
          assert.is.not((await ask(alice, 'tools/call', { name, arguments: {} })).json?.error, undefined, client)
      }
      assert.equal(
        backend.calls('tools/call').map(({ message }) => message.params?.['name']),
        [],
      )
      await guarded.close()
      await backend.close()
    })
}

test.run()
