/** Checks that an exception in our handling of a backend's message reaches neither undici nor the process. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type AnswerOwner, AnswerReader } from '../../../../dataplane/gateway/backends/connection/answer-reader.ts'
import { MessageStream } from '../../../../dataplane/gateway/backends/connection/message-stream.ts'
import { AnswerScanner } from '../../../../dataplane/gateway/mcp/answer-scanner.ts'
import { Budget } from '../../../../dataplane/server/budget.ts'

const fault = new TypeError('not as expected')
const fail = (): never => {
  throw fault
}
const EVENTS = { 'content-type': 'text/event-stream' }

function controller() {
  const aborted: Error[] = []
  return { aborted, control: { abort: (reason: Error) => void aborted.push(reason), pause() {}, resume() {} } as never }
}

test('a fault in one message of a stream affects that message alone', () => {
  const received: string[] = []
  const faults: unknown[] = []
  const share = new Budget({ total: 1e6, share: 1e6, reserve: 0 }).shareOf('b')
  const stream = new MessageStream({
    share,
    log: { error: ({ err }: { err: unknown }) => void faults.push(err) } as never,
    onMessage: (bytes) => (bytes.includes('bad') ? fail() : received.push(bytes.toString())),
    onBegin: fail,
    onEnd: fail,
  })
  const { control } = controller()
  stream.onRequestStart(control)
  stream.onResponseStart(control, 200, EVENTS)
  stream.onResponseData(control, Buffer.from('data: 1\n\ndata: bad\n\ndata: 2\n\n'))
  stream.onResponseEnd()
  assert.equal(received, ['1', '2'])
  assert.equal(faults, [fault, fault, fault])
})

const message = (more: object) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...more })}\n\n`
for (const [what, owner, type, text] of [
  ['the head', { begun: fail }, 'application/json', ''],
  ['a notification', { notified: fail }, 'text/event-stream', message({ method: 'notifications/progress' })],
  ['a request', { requested: fail }, 'text/event-stream', message({ id: 1, method: 'roots/list' })],
  ['the answer', { answered: fail }, 'application/json', '{"jsonrpc":"2.0","id":1,"result":{}}'],
  ['a refusal', { refused: fail }, 'text/html', '<html>'],
  ['an empty stream', { refused: fail }, 'text/event-stream', ''],
  ['a stream that breaks off', { failed: fail }, 'text/event-stream', message({ method: 'notifications/progress' })],
] as const)
  test(`a fault in ${what} affects that exchange alone`, () => {
    const faults: unknown[] = []
    let ended = 0
    const reader = new AnswerReader({
      backendShare: new Budget({ total: 0, share: 0, reserve: 0 }).shareOf('b'),
      isOther: () => false,
      scanner: () => new AnswerScanner(),
      part: () => true,
      holds: () => true,
      answered() {},
      notified: () => true,
      requested() {},
      refused() {},
      failed() {},
      goOnAfter: () => false,
      faulted: (error) => void faults.push(error),
      ended: () => void ended++,
      ...owner,
    } satisfies AnswerOwner)
    const { control, aborted } = controller()
    reader.onRequestStart(control)
    reader.onResponseStart(control, 200, { 'content-type': type })
    if (text !== '') reader.onResponseData(control, Buffer.from(text))
    reader.onResponseEnd()
    assert.equal(faults, [fault])
    assert.is(aborted.length, 1)
    assert.is(ended, 1)
  })

test.run()
