import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ResultStripper } from '../../../../dataplane/gateway/mcp/result-stripper.ts'

const NAMES = new Set(['resultType', 'ttlMs', 'cacheScope'])
const SIZES = [1, 2, 3, 5, 7, 16, 1000]

function strip(text: string, size: number): { readonly text: string; readonly type: string | undefined } {
  const bytes = Buffer.from(text)
  const stripper = new ResultStripper(NAMES)
  const out: Buffer[] = []
  for (let at = 0; at < bytes.length; at += size) stripper.push(bytes.subarray(at, at + size), out)
  return { text: Buffer.concat(out).toString(), type: stripper.resultType }
}

const cases: readonly [text: string, left: string, type?: string][] = [
  ['{"id":1,"result":{"resultType":"complete","a":1}}', '{"id":1,"result":{"a":1}}', '"complete"'],
  ['{"result":{"a":1,"resultType":"complete"},"id":1}', '{"result":{"a":1},"id":1}', '"complete"'],
  ['{"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private"}}', '{"result":{}}', '"complete"'],
  [
    '{"result":{"a":[1,{"resultType":"x"}],"ttlMs":{"deep":["}",1]},"b":"]}"},"ttlMs":5}',
    '{"result":{"a":[1,{"resultType":"x"}],"b":"]}"},"ttlMs":5}',
  ],
  ['{ "result" : { "ttlMs" : 5 , "a" : 1 } }', '{ "result" : { "a" : 1 } }'],
  ['{"error":{"resultType":1,"ttlMs":2}}', '{"error":{"resultType":1,"ttlMs":2}}'],
  ['{"result":[{"ttlMs":1}],"x":{"ttlMs":1}}', '{"result":[{"ttlMs":1}],"x":{"ttlMs":1}}'],
  [
    '{"result":{"x":"\\\\","y\\"":"a\\"},","resultType" : "input_required" }}',
    '{"result":{"x":"\\\\","y\\"":"a\\"},"}}',
    '"input_required"',
  ],
  [
    `{"result":{"${'n'.repeat(200)}":"é日","ttlMs":1,"ttlMsX":"𝄞"}}`,
    `{"result":{"${'n'.repeat(200)}":"é日","ttlMsX":"𝄞"}}`,
  ],
]

for (const [text, left, type] of cases)
  test(text.slice(0, 60), () => {
    for (const size of SIZES) assert.equal(strip(text, size), { text: left, type }, `in chunks of ${size}`)
  })

for (const [text, left] of [
  ['{"result":{"content":[],"structuredContent":[1,{"a":[]}],"b":1}}', '{"result":{"content":[],"b":1}}'],
  ['{"result":{"structuredContent" : "a}]\\"","b":1}}', '{"result":{"b":1}}'],
  ['{"result":{"structuredContent":null}}', '{"result":{}}'],
  [
    '{"result":{"ttlMs":1,"structuredContent":\n {"structuredContent":[1]},"b":1}}',
    '{"result":{"structuredContent":{"structuredContent":[1]},"b":1}}',
  ],
  [
    '{"result":{"a":{"structuredContent":[1]},"structuredContent":{}}}',
    '{"result":{"a":{"structuredContent":[1]},"structuredContent":{}}}',
  ],
  ['{"structuredContent":[1],"result":{}}', '{"structuredContent":[1],"result":{}}'],
] as const)
  test(`a member that is no object is left out: ${text.slice(0, 60)}`, () => {
    for (const size of SIZES) {
      const stripper = new ResultStripper(NAMES, undefined, 'structuredContent')
      const out: Buffer[] = []
      const bytes = Buffer.from(text)
      for (let from = 0; from < bytes.length; from += size) stripper.push(bytes.subarray(from, from + size), out)
      assert.is(Buffer.concat(out).toString(), left, `in chunks of ${size}`)
    }
  })

/** Returns a generator of the same numbers in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((state / 2_147_483_648) * below)
  }
}

test('the rest of any answer equals what JSON.parse finds without those members', () => {
  const next = numbers(7)
  const strings = ['', 'a', '"', '\\', '\\"', '}', ']', ',', ':', 'é日𝄞', 'resultType', 'ttlMs', 'x'.repeat(70)]
  const string = () => strings[next(strings.length)] as string
  const value = (depth: number): unknown => {
    const kind = next(depth > 3 ? 4 : 6)
    if (kind === 0) return string()
    if (kind === 1) return next(1000) - 500.5
    if (kind === 2) return [true, false, null][next(3)]
    if (kind === 3) return string() + string()
    if (kind === 4) return Array.from({ length: next(4) }, () => value(depth + 1))
    return Object.fromEntries(Array.from({ length: next(5) }, () => [string(), value(depth + 1)]))
  }
  for (let round = 0; round < 2_000; round++) {
    const message = { id: string(), result: value(0), more: value(0) }
    const text = JSON.stringify(message, undefined, next(2))
    const { result } = message
    if (typeof result === 'object' && result !== null && !Array.isArray(result))
      message.result = Object.fromEntries(Object.entries(result).filter(([name]) => !NAMES.has(name)))
    const left = strip(text, 1 + next(20)).text
    assert.equal(JSON.parse(left), JSON.parse(JSON.stringify(message)), text)
  }
})

test.run()
