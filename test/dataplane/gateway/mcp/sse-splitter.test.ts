import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { SseSplitter } from '../../../../dataplane/gateway/mcp/sse-splitter.ts'

/** Returns the data of the events in `text`, read in chunks of `size` bytes. */
function events(text: string, size: number): string[] {
  const found: string[] = []
  let data: Buffer[] = []
  const splitter = new SseSplitter({
    onEventData: (bytes) => void data.push(bytes),
    onEventEnd() {
      found.push(Buffer.concat(data).toString())
      data = []
    },
  })
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) splitter.push(bytes.subarray(at, at + size))
  return found
}

const cases: readonly [name: string, text: string, data: readonly string[]][] = [
  ['one', 'data: {"a":1}\n\n', ['{"a":1}']],
  ['no space', 'data:x\n\n', ['x']],
  ['two spaces', 'data:  x\n\n', [' x']],
  ['two', 'event: message\nid: 5\ndata: a\n\ndata: b\n\n', ['a', 'b']],
  ['CRLF', 'event: message\r\ndata: a\r\n\r\ndata: b\r\n\r\n', ['a', 'b']],
  ['CR', 'data: a\r\rdata: b\r\r', ['a', 'b']],
  ['lines', 'data: a\ndata: b\ndata:\ndata: c\n\n', ['a\nb\n\nc']],
  ['a field without a colon', 'data\n\n', ['']],
  ['comments', ': hello\n\n: again\ndata: a\n\n', ['a']],
  ['priming', 'id: 1\ndata: \n\ndata: a\n\n', ['', 'a']],
  ['retry', 'retry: 100\n\ndata: a\n\n', ['a']],
  ['another type', 'event: endpoint\ndata: /x\n\ndata: a\n\n', ['a']],
  ['unfinished', 'data: a\n\ndata: b\n', ['a']],
  ['colons', 'data: a:b: c\n\n', ['a:b: c']],
  ['a long field name', `${'x'.repeat(100)}: y\ndata: a\n\n`, ['a']],
  ['UTF-8', 'data: é日𝄞\n\n', ['é日𝄞']],
]
for (const [name, text, data] of cases)
  test(name, () => {
    for (const size of [1, 2, 3, 4, 7, 100]) assert.equal(events(text, size), data, `size ${size}`)
  })

const ids: readonly [name: string, text: string, id: string | undefined, retryMs: number | undefined][] = [
  ['none', 'data: a\n\n', undefined, undefined],
  ['priming', 'id: 1\nretry: 250\ndata: \n\n', '1', 250],
  ['without data', 'id: x y\n\n', 'x y', undefined],
  ['of an event that is not whole', 'id: 1\ndata: a\n\nid: 2\ndata: b\n', '1', undefined],
  ['kept by an event without one', 'id: 1\ndata: a\n\ndata: b\n\n', '1', undefined],
  ['twice in an event', 'id: 1\nid: 2\ndata: a\n\n', '2', undefined],
  ['that can’t be sent back', 'id: 1\ndata: a\n\nid: a\u0000b\ndata: b\n\n', '1', undefined],
  ['too long', `id: 1\ndata: a\n\nid: ${'x'.repeat(2000)}\ndata: b\n\n`, '1', undefined],
  ['UTF-8', 'id: é\ndata: a\n\n', Buffer.from('é').toString('latin1'), undefined],
  ['a retry that is no number', 'retry: soon\ndata: a\n\n', undefined, undefined],
]
for (const [name, text, id, retryMs] of ids)
  test(`an id: ${name}`, () => {
    for (const size of [1, 2, 5, 10_000]) {
      const splitter = new SseSplitter({ onEventData() {}, onEventEnd() {} })
      const bytes = Buffer.from(text)
      for (let at = 0; at < bytes.length; at += size) splitter.push(bytes.subarray(at, at + size))
      assert.is(splitter.lastEventId, id)
      assert.is(splitter.retryMs, retryMs)
    }
  })

test('a continuation on another stream begins with a new event', () => {
  const found: string[] = []
  const splitter = new SseSplitter({ onEventData: (bytes) => void found.push(bytes.toString()), onEventEnd() {} })
  splitter.push(Buffer.from('id: 1\ndata: a\n\nid: 2\nda'))
  splitter.restart()
  splitter.push(Buffer.from('data: b\n\n'))
  assert.equal([found, splitter.lastEventId], [['a', 'b'], '1'])
})

test.run()
