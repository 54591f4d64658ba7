import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type MendRule, mendNulls, NullMender, ruleFor } from '../../../../dataplane/gateway/mcp/answer-mender.ts'
import { AnswerScanner } from '../../../../dataplane/gateway/mcp/answer-scanner.ts'
import { createNumbers } from '../../../support/random.ts'

const SIZES = [1, 2, 3, 5, 7, 16, 1000]
const TOOL = ruleFor('tools/call', false)

function inChunks(text: string, size: number, push: (chunk: Buffer) => void): void {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) push(bytes.subarray(at, at + size))
}

function mend(text: string, size: number, rule: MendRule): string {
  const mender = new NullMender(rule)
  const out: Buffer[] = []
  inChunks(text, size, (chunk) => mender.push(chunk, out))
  return Buffer.concat(out).toString()
}

const wrap = (result: string): string => `{"jsonrpc":"2.0","id":1,"result":${result}}`

const results: readonly [input: string, mended: string][] = [
  ['{"content":[]}', '{"content":[]}'],
  ['{"content":null}', '{"content":[]}'],
  ['{ "content" : null , "isError" : null }', '{ "content" : []  }'],
  ['{"isError":null,"content":[]}', '{"content":[]}'],
  ['{"isError":null,"_meta":null,"content":[],"structuredContent":null}', '{"content":[]}'],
  ['{"isError" : null }', '{ "content":[]}'],
  ['{}', '{"content":[]}'],
  ['{"task":{"taskId":"a","ttl":null,"statusMessage":null}}', '{"task":{"taskId":"a","ttl":null}}'],
  [
    '{"content":[null,{"type":"text","text":"null","annotations":null,"_meta":{"a":null}},null]}',
    '{"content":[{"type":"text","text":"null","_meta":{"a":null}}]}',
  ],
  ['{"content":[{"type":"text","text":null}]}', '{"content":[{"type":"text","text":""}]}'],
  [
    '{"content":[{"type":"resource","resource":{"uri":"a:b","mimeType":null,"text":"\\"null\\\\","blob":null}}]}',
    '{"content":[{"type":"resource","resource":{"uri":"a:b","text":"\\"null\\\\"}}]}',
  ],
  [
    '{"content":[],"structuredContent":{"a":null,"b":[null,12345678901234567890]}}',
    '{"content":[],"structuredContent":{"a":null,"b":[null,12345678901234567890]}}',
  ],
  [
    '{"content":[{"type":"text","text":"ok","annotations":{"audience":null,"priority":null,"x":null}}],"x":null}',
    '{"content":[{"type":"text","text":"ok","annotations":{"x":null}}],"x":null}',
  ],
]
for (const [input, mended] of results)
  test(`a result: ${input.slice(0, 80)}`, () => {
    for (const size of SIZES) assert.is(mend(wrap(input), size, TOOL), wrap(mended), `in chunks of ${size}`)
    assert.is(mendNulls(Buffer.from(wrap(input)), TOOL).toString(), wrap(mended))
  })

const messages: readonly [input: string, mended: string][] = [
  ['{"id":1,"result":{"content":[]}}', '{"id":1,"result":{"content":[]},"jsonrpc":"2.0"}'],
  [
    '{"method":null,"jsonrpc":"2.0","params":{"a":[1,"}"]},"id":1,"error":null,"result":{"content":[]},"error":null}',
    '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}',
  ],
]
for (const [input, mended] of messages)
  test(`a message: ${input.slice(0, 80)}`, () => {
    for (const size of SIZES) assert.is(mend(input, size, TOOL), mended, `in chunks of ${size}`)
  })

test('invalid JSON passes unchanged, and with too much white space only the mending is given up', () => {
  for (const text of ['', '{"result":{"content":[}', '{"result"}', '[1,2', '{"a":1}}', '{"result":{"isError":}}'])
    for (const size of SIZES) assert.is(mend(text, size, { members: TOOL.members ?? {} }), text, text)
  const wide = `{"jsonrpc":"2.0","result":{"isError":null,${' '.repeat(2000)}"_meta":null,"content":[]}}`
  for (const size of SIZES.filter((size) => size < 20))
    assert.equal(JSON.parse(mend(wide, size, TOOL)), { jsonrpc: '2.0', result: { _meta: null, content: [] } })
})

test('random results in random chunks lose their nulls and nothing else', () => {
  const int = createNumbers(7)
  const pick = <T>(list: readonly T[]): T => list[int(list.length)] as T
  const space = () => pick(['', '', ' ', '\n '])
  const write = (value: unknown): string => {
    if (Array.isArray(value)) return `[${space()}${value.map(write).join(`${space()},${space()}`)}${space()}]`
    if (value === null || typeof value !== 'object') return JSON.stringify(value)
    const members = Object.entries(value).map(
      ([key, inner]) => `${JSON.stringify(key)}${space()}:${space()}${write(inner)}`,
    )
    return `{${space()}${members.join(`${space()},${space()}`)}${space()}}`
  }
  for (let time = 0; time < 300; time++) {
    const block = () => ({
      ...pick([{}, { annotations: null }, { annotations: { priority: null, audience: ['user'] } }]),
      type: 'text',
      text: pick(['', 'null', '"\\', '{[', 'é']),
      ...pick([{}, { _meta: null }, { more: null }]),
    })
    const result = {
      ...pick([{}, { isError: null }, { _meta: null, isError: false }]),
      content: Array.from({ length: int(4) }, () => pick([block(), null])),
      ...pick([{}, { structuredContent: null }, { structuredContent: { a: [null, { b: null }] } }]),
    }
    const expected = JSON.parse(JSON.stringify(result), function (this: unknown, key, value) {
      if (key === 'content') return value.filter((item: unknown) => item !== null)
      return value
    })
    for (const owner of [
      expected,
      ...expected.content,
      ...expected.content.map((one: { annotations?: object }) => one.annotations ?? {}),
    ])
      for (const name of ['isError', '_meta', 'structuredContent', 'annotations', 'priority', 'audience'])
        if (owner[name] === null) delete owner[name]
    const text = write({ jsonrpc: '2.0', id: 1, result })
    assert.equal(JSON.parse(mend(text, 1 + int(20), TOOL)), { jsonrpc: '2.0', id: 1, result: expected }, text)
  }
})

test('a scanner can switch to a mender in the middle of a result', () => {
  const text = `{"id":"7","result":{"content":[{"type":"text","text":"${'null, '.repeat(50)}","_meta":null}],"isError":null},"error":null}`
  for (const size of SIZES.slice(0, -1))
    for (const after of [12, 25, 40, 60, 200]) {
      const scanner = new AnswerScanner()
      scanner.sentId = '7'
      const mender = new NullMender(TOOL)
      let out: Buffer[] = []
      let passed = 0
      let isMending = false
      inChunks(text, size, (chunk) => {
        const from = out.length
        scanner.scan(chunk, out)
        passed += chunk.length
        const tail = isMending ? scanner.tailFrom : passed > after ? 0 : undefined
        if (tail !== undefined)
          for (const part of out.splice(isMending ? Math.max(from, tail) : 0)) mender.push(part, out)
        if (!isMending && passed > after) {
          isMending = true
          scanner.mendWith(mender)
        }
      })
      assert.equal(
        Buffer.concat(out).toString(),
        text
          .replace('"7"', '7')
          .replaceAll(/,"(_meta|isError|error)":null/g, '')
          .replace(/\}$/, ',"jsonrpc":"2.0"}'),
        `${size} ${after}`,
      )
      assert.ok(scanner.complete)
      out = []
    }
})

test.run()
