import { Readable } from 'node:stream'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eachLine, lastWords, redactor, shortForm } from '../../../../operator/standalone/process/lines.ts'

const forms: readonly (readonly [line: string, expected: string | undefined])[] = [
  ['{"level":"info","msg":"serves"}', undefined],
  ['{"level":"warn","msg":"slow"}', 'warn: slow'],
  ['{"level":"error","msg":"failed","err":{"message":"ECONNREFUSED"}}', 'error: failed: ECONNREFUSED'],
  ['{"level":"error","msg":"same","err":{"message":"same"}}', 'error: same'],
  [
    '{"level":"warn","time":"2026-11-20T10:00:00Z","name":"gateway","backend":"clock","tries":3,"msg":"no list of tools"}',
    'warn: no list of tools (backend: clock, tries: 3)',
  ],
  ['{"not":"ours"}', '{"not":"ours"}'],
  ['{broken', '{broken'],
  ['plain text', 'plain text'],
  ['  ', undefined],
]

for (const [line, expected] of forms) {
  test(`short form of ${line}`, () => {
    assert.is(shortForm(line), expected)
  })
}

test('lines come whole, however the stream is cut, and the last one without its end too', async () => {
  const lines: string[] = []
  const stream = Readable.from([Buffer.from('a\r\nb'), Buffer.from('c\n\nd')])
  eachLine(stream, (line) => lines.push(line))
  await new Promise((resolve) => stream.on('close', resolve))
  assert.equal(lines, ['a', 'bc', '', 'd'])
})

const nodeEnds = `node:internal/modules/cjs/loader:1568
  throw err;
  ^
Error: Cannot find module '/x/nowhere.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1564:15)
    at node:internal/main/run_main_module:33:47 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}
Node.js v24.21.0`
const pythonEnds = `Traceback (most recent call last):
  File "/x/server.py", line 1, in <module>
    import nothing
ModuleNotFoundError: No module named 'nothing'`

const words: readonly (readonly [what: string, lines: string, expected: string])[] = [
  ['Node', nodeEnds, "Error: Cannot find module '/x/nowhere.js'"],
  ['Python', pythonEnds, "ModuleNotFoundError: No module named 'nothing'"],
  ['Go', 'panic: it is over\n\ngoroutine 1 [running]:\nmain.main()', 'panic: it is over'],
  ['npm', 'npm error code E404\nnpm error 404 Not Found', 'npm error code E404 / npm error 404 Not Found'],
  [
    'a shell',
    'one\ntwo\nthree\nfour\n five\nsh: 1: nothing: not found',
    'two / three / four / five / sh: 1: nothing: not found',
  ],
]

for (const [what, lines, expected] of words) {
  test(`the last output of ${what} is reduced to the reason`, () => {
    assert.is(lastWords(lines.split('\n')), expected)
  })
}

test('known secrets are taken out, the longer before the shorter; short values stay', () => {
  const redact = redactor(['secret-value', 'secret-value-2\n', 'abc'])
  assert.is(redact('secret-value-2 secret-value abc'), '[redacted] [redacted] abc')
})

test.run()
