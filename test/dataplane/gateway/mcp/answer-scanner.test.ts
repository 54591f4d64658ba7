import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type AnswerEdits, AnswerScanner } from '../../../../dataplane/gateway/mcp/answer-scanner.ts'

interface Read {
  readonly scanner: AnswerScanner
  readonly text: string
}

/** Scans `text` in chunks of `size` bytes. */
function read(text: string | Buffer, size: number, edits?: AnswerEdits): Read {
  const bytes = Buffer.from(text)
  const scanner = new AnswerScanner(edits)
  const out: Buffer[] = []
  for (let at = 0; at < bytes.length; at += size) scanner.scan(bytes.subarray(at, at + size), out)
  return { scanner, text: Buffer.concat(out).toString() }
}

const SIZES = [1, 2, 3, 5, 7, 16, 1000]
const EDITS: AnswerEdits = { id: Buffer.from('"mine"'), resultMember: '"resultType":"complete"' }

const answers: readonly [text: string, edited: string][] = [
  [
    '{"jsonrpc":"2.0","id":1,"result":{"a":1}}',
    '{"jsonrpc":"2.0","id":"mine","result":{"resultType":"complete","a":1}}',
  ],
  ['{"result":{},"jsonrpc":"2.0","id":"x"}', '{"result":{"resultType":"complete"},"jsonrpc":"2.0","id":"mine"}'],
  [
    '{ "id" : -1.5e3 , "result" : { "id":5,"result":{} } }',
    '{ "id" : "mine" , "result" : { "resultType":"complete","id":5,"result":{} } }',
  ],
  [
    '{"id":"a\\"}b","error":{"code":-32000,"message":"é\\\\"}}',
    '{"id":"mine","error":{"code":-32000,"message":"é\\\\"}}',
  ],
  ['{"result":[{"a":"]}"}],"id":1}\n', '{"result":[{"a":"]}"}],"id":"mine"}\n'],
  [
    '{"id":1,"result":{"text":"日本語 \\u0041 𝄞"},"extra":[true,null,{"x":[]}]}',
    '{"id":"mine","result":{"resultType":"complete","text":"日本語 \\u0041 𝄞"},"extra":[true,null,{"x":[]}]}',
  ],
]
for (const [text, edited] of answers)
  test(`answer ${text.trim()}`, () => {
    for (const size of SIZES) {
      const plain = read(text, size)
      assert.is(plain.text, text, `size ${size}`)
      assert.ok(plain.scanner.complete && plain.scanner.isAnswer, `size ${size}`)
      assert.is(plain.scanner.id, text.match(/"id" ?: ?("(?:\\.|[^"])*"|[^ ,}]+)/)?.[1], `size ${size}`)
      assert.is(read(text, size, EDITS).text, edited, `size ${size}`)
    }
  })

test('an element of an array that is no message is skipped, and the next is read', () => {
  for (const element of [
    'null',
    '7',
    '"a, ]\\""',
    '[1,["]"]]',
    '{"id":{"a":1},"":2,"result":{}}',
    '{"result":{},"id":[]}',
  ])
    for (const size of SIZES) {
      let scanner = new AnswerScanner()
      const isAnswer: boolean[] = []
      const bytes = Buffer.from(`[${element} , {"id":1,"result":{}} , ${element}]`)
      for (let at = 0; at < bytes.length; at += size) {
        let chunk: Buffer | undefined = bytes.subarray(at, at + size)
        while (chunk !== undefined) {
          scanner.scan(chunk, [])
          chunk = scanner.rest
          if (chunk === undefined) break
          isAnswer.push(scanner.isAnswer)
          const next = new AnswerScanner()
          next.startBehind(scanner)
          scanner = next
        }
      }
      assert.ok(scanner.complete, `${element} size ${size}`)
      assert.equal([...isAnswer, scanner.isAnswer], [false, true, false], `${element} size ${size}`)
    }
  for (const broken of ['[]', '[,{}]', '[}', '[{"id":[1]']) assert.not.ok(read(broken, 1).scanner.complete, broken)
})

test('notifications and requests are distinguished', () => {
  for (const size of SIZES) {
    const note = read('{"method":"notifications/progress","params":{"id":5},"jsonrpc":"2.0"}', size).scanner
    assert.ok(note.complete && note.hasMethod && !note.isAnswer && note.id === undefined)
    const scanner = read('{"method":"elicitation/create","params":{},"jsonrpc":"2.0","id":0}', size).scanner
    assert.ok(scanner.complete && scanner.hasMethod && scanner.id === '0')
  }
})

test('an id beyond ASCII is read whole', () => {
  for (const size of SIZES) assert.is(read('{"id":"é日𝄞","result":{}}', size).scanner.id, '"é日𝄞"')
})

const broken = [
  '',
  'x',
  '[]',
  '[{"id":1},{"id":2}]',
  '[{"id":1}',
  '[{"id":1}]]',
  '[[{"id":1}]]',
  '{',
  '{"id":1',
  '{"id":1}}',
  '{"id":1} x',
  '{id:1}',
  '{"id"}',
  '{"id":}',
  '{"id":,}',
  '{,}',
  '{"id":{}}',
  '{"id":1,"id":2}',
  '{"a":1 "b":2}',
  '<html>',
  'null',
  '"{}"',
]
for (const text of broken)
  test(`broken: ${text}`, () => {
    for (const size of SIZES) {
      const { scanner } = read(text, size)
      assert.not.ok(scanner.complete && scanner.id !== undefined, `size ${size}`)
    }
  })

for (const text of ['[{"id":1,"result":{}}]', ' [ {"id":1,"result":{}} ] ', '\ufeff{"id":1,"result":{}}'])
  test(`still a message: ${JSON.stringify(text)}`, () => {
    for (const size of SIZES) {
      const { scanner, text: passed } = read(text, size)
      assert.ok(scanner.complete && scanner.id === '1', `size ${size}`)
      assert.equal(JSON.parse(passed), { id: 1, result: {} }, `size ${size}`)
    }
  })

test('an endless id is not collected', () => {
  const { scanner } = read(`{"id":"${'x'.repeat(100_000)}","result":{}}`, 1000)
  assert.ok(scanner.bad)
})

test('no input makes it throw', () => {
  const alphabet = '{}[]",:\\ \n0aeid'
  let seed = 7
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % below
  for (let round = 0; round < 20_000; round++) {
    let text = ''
    for (let length = random(40); length > 0; length--) text += alphabet[random(alphabet.length)]
    read(text, 1 + random(5), random(2) === 0 ? EDITS : undefined)
  }
})

test('long strings are read to their end, whatever escapes they have and wherever a chunk ends', () => {
  const pieces = ['\\\\', '\\"', '\\n', '\\\\\\"', '}', ']', '{\\"', 'a', 'é', 'x'.repeat(31), 'y'.repeat(64)]
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  for (let round = 0; round < 200; round++) {
    const inside = Array.from({ length: random(40) }, () => pieces[random(pieces.length)]).join('')
    const text = `{"a":"${inside}","id":${round},"result":{"b":["${inside}",{"c":"${inside}"}]},"d":"${inside}"}`
    assert.is(JSON.parse(text).id, round)
    for (const size of [1, 2, 33, 64, 65, 1 + random(200), 10_000]) {
      const { scanner, text: passed } = read(text, size)
      assert.ok(scanner.complete && scanner.isAnswer && !scanner.hasError, `${text} by ${size}`)
      assert.is(scanner.id, String(round))
      assert.is(passed, text)
      assert.not.ok(read(text.slice(0, -1), size).scanner.complete)
    }
  }
})

test.run()
