/** Tests that a call's body is written to the memory of the client's body if it fits, and never otherwise. */
import type { Dispatcher } from 'undici'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { HttpTransport } from '../../../../dataplane/gateway/backends/connection/http.ts'
import { Message, parseMessage } from '../../../../dataplane/gateway/mcp/message.ts'

/** Returns the body that the connections get for this text and memory. */
function sentFor(body: string, memory: Buffer | undefined): unknown {
  let sent: unknown
  const calls = {
    dispatch: (options: Dispatcher.DispatchOptions) => {
      assert.equal([options.path, options.method, options.headers], ['/mcp', 'POST', ['a', 'b']])
      sent = options.body
      return true
    },
  } as unknown as Dispatcher
  const request = { path: '/mcp', method: 'POST' as const, headers: ['a', 'b'], body, memory }
  new HttpTransport(calls, calls).dispatch(request, {})
  return sent
}

for (const [text, memory] of [
  ['same', 'same'],
  ['short', 'longer than that'],
  ['ä€😀', 'as long..'],
  ['', 'x'],
] as const)
  test(`${JSON.stringify(text)} is written to the memory of ${JSON.stringify(memory)}`, () => {
    const bytes = Buffer.from(memory)
    const sent = sentFor(text, bytes)
    assert.ok(Buffer.isBuffer(sent))
    assert.is(sent.toString(), text)
    assert.is(sent.buffer, bytes.buffer)
  })

for (const [text, memory] of [
  ['longer than that', 'short'],
  // As many characters as there are bytes, and more bytes.
  ['äaa', 'xxx'],
  ['aa😀', 'xxxx'],
] as const)
  test(`${JSON.stringify(text)} is left as it is if there is only the memory of ${JSON.stringify(memory)}`, () => {
    assert.is(sentFor(text, Buffer.from(memory)), text)
  })

test('a request without memory is left as it is', () => {
  assert.is(sentFor('text', undefined), 'text')
})

const call = (argument: string) =>
  Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"${argument}"}}}`)

test('a message gives its memory once, and only that of a small body', () => {
  const body = call('x')
  const message = parseMessage(body)
  assert.ok(message instanceof Message)
  assert.is(message.takeMemory(), body)
  assert.is(message.takeMemory(), undefined)
  const large = parseMessage(call('x'.repeat(3_000)))
  assert.ok(large instanceof Message)
  assert.is(large.takeMemory(), undefined)
})

test('a message that was made from another has no memory', () => {
  const message = parseMessage(
    Buffer.from('{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a://b"}}'),
  )
  assert.ok(message instanceof Message)
  assert.is(message.withUri('c://d').takeMemory(), undefined)
})

test.run()
