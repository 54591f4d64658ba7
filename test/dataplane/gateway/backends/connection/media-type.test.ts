import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isOfType } from '../../../../../dataplane/gateway/backends/connection/http.ts'

for (const [header, expected] of [
  ['text/event-stream', true],
  ['text/event-stream; charset=utf-8', true],
  ['Text/Event-Stream', true],
  ['text/plain', false],
  ['', false],
  [undefined, false],
  [['text/event-stream'], false],
] as const)
  test(`${JSON.stringify(header)} ${expected ? 'is' : 'is not'} a stream of events`, () =>
    assert.is(isOfType(header as string | undefined, 'text/event-stream'), expected))

test.run()
