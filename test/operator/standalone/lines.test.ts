import { Readable } from 'node:stream'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eachLine, redactor, shortForm } from '../../../operator/standalone/lines.ts'

const forms: readonly (readonly [line: string, shown: string | undefined])[] = [
  ['{"level":"info","msg":"serves"}', undefined],
  ['{"level":"warn","msg":"slow"}', 'warn: slow'],
  ['{"level":"error","msg":"failed","err":{"message":"ECONNREFUSED"}}', 'error: failed: ECONNREFUSED'],
  ['{"level":"error","msg":"same","err":{"message":"same"}}', 'error: same'],
  ['{"not":"ours"}', '{"not":"ours"}'],
  ['{broken', '{broken'],
  ['plain text', 'plain text'],
  ['  ', undefined],
]

for (const [line, shown] of forms) {
  test(`short form of ${line}`, () => {
    assert.is(shortForm(line), shown)
  })
}

test('lines come whole, however the stream is cut, and the last one without its end too', async () => {
  const lines: string[] = []
  const stream = Readable.from([Buffer.from('a\r\nb'), Buffer.from('c\n\nd')])
  eachLine(stream, (line) => lines.push(line))
  await new Promise((resolve) => stream.on('close', resolve))
  assert.equal(lines, ['a', 'bc', '', 'd'])
})

test('known secrets are taken out, the longer before the shorter; short values stay', () => {
  const redact = redactor(['secret-value', 'secret-value-2\n', 'abc'])
  assert.is(redact('secret-value-2 secret-value abc'), '[redacted] [redacted] abc')
})

test.run()
