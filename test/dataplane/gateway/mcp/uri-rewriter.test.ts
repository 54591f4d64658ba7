import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { renameUris, UriRewriter } from '../../../../dataplane/gateway/mcp/uri-rewriter.ts'
import { createNumbers } from '../../../support/random.ts'

const SIZES = [1, 2, 3, 5, 7, 16, 1000]

/** Rewrites as for a backend `b` with skills. */
const prefixUri = (uri: string): string => (uri.startsWith('skill://') ? `skill://b/${uri.slice(8)}` : uri)

function inChunks(input: string, size: number, isPrivate: boolean): string {
  const bytes = Buffer.from(input)
  const rewriter = new UriRewriter(prefixUri, isPrivate)
  const out: Buffer[] = []
  // Overwrites each chunk once it was pushed, as connections do with their buffers.
  for (let at = 0; at < bytes.length; at += size) {
    const chunk = Buffer.from(bytes.subarray(at, at + size))
    const parts: Buffer[] = []
    rewriter.push(chunk, parts)
    out.push(Buffer.concat(parts))
    chunk.fill(0)
  }
  return Buffer.concat(out).toString()
}

function assertRewritten(input: string, expected: string, isPrivate = false): void {
  for (const size of SIZES) assert.is(inChunks(input, size, isPrivate), expected, `in chunks of ${size}`)
  assert.is(renameUris(Buffer.from(input), prefixUri, isPrivate).toString(), expected)
}

const OWN = '"skill://x/SKILL.md"'
const SHOWN = '"skill://b/x/SKILL.md"'
/** Answers with `OWN` for a rewritten URI and `?` for an unchanged one. */
const answers = [
  `{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":OWN,"text":"skill://x"},{"mimeType":"a/b","uri":OWN}]}}`,
  `{ "result" :\n{ "contents" : [ { "uri" : OWN } ] } , "id" : 1 }`,
  `{"result":{"content":[{"type":"resource_link","uri":OWN},{"resource":{"uri":OWN,"text":"{\\"uri\\":1}"}}]}}`,
  `{"result":{"messages":[{"role":"user","content":{"uri":OWN}},{"content":{"resource":{"uri":OWN}}}]}}`,
  `{"result":{"messages":[{"content":[{"uri":OWN},{"resource":{"uri":OWN}}]}]}}`,
  `{"result":{"_meta":{"ui":{"resourceUri":OWN},"ui/resourceUri":OWN}}}`,
  `{"result":{"result":{"contents":[{"uri":OWN}],"_meta":{"ui/resourceUri":OWN}}}}`,
  `{"error":{"code":-32602,"message":?,"data":{"uri":OWN}}}`,
  // Duplicate and escaped member names: clients may accept any of them.
  `{"result":{"contents":[{"uri":OWN,"uri":OWN}],"contents":[{"uri":OWN}]},"result":{"contents":[{"uri":OWN}]}}`,
  `{"r\\u0065sult":{"\\u0063ontents":[{"\\u0075\\u0072\\u0069":OWN}],"_meta":{"ui\\/resourceUri":OWN}}}`,
  // URIs in other places, and values that are not text.
  `{"uri":?,"contents":[{"uri":?}],"result":{"uri":?,"contents":{"uri":?},"data":{"uri":?}}}`,
  `{"result":{"contents":[{"x":{"uri":?},"y":[{"uri":?}],"uri":OWN,"Uri":?,"_meta":{"uri":?}}]}}`,
  `{"result":{"contents":[[{"uri":?}],?,{"uri":[?]},{"uri":{"uri":?}},{"uri":7},{"uri":null},{"uri":OWN}]}}`,
  `{"result":{"structuredContent":{"contents":[{"uri":?}],"uri":?},"content":[{"text":"\\\\\\"","uri":OWN}]}}`,
  `{"result":{"result":{"result":{"contents":[{"uri":?}]}}}}`,
  `{"result":{"content":{"uri":?},"messages":[{"content":[[{"uri":?}]]}]}}`,
  `{"result":{},"x":[],"y":{"result":{"contents":[{"uri":?}]}}}`,
]
for (const [index, answer] of answers.entries())
  test(`an answer with its URIs in place: ${index} ${answer.slice(0, 60)}`, () => {
    const input = answer.replaceAll('OWN', OWN).replaceAll('?', OWN)
    assertRewritten(input, answer.replaceAll('OWN', SHOWN).replaceAll('?', OWN))
  })

const uris: readonly [input: string, expected: string][] = [
  ['"file:///x"', '"file:///x"'],
  ['"f\\u0069le:///\\/x"', '"f\\u0069le:///\\/x"'],
  ['"\\u0073kill:\\/\\/x\\n"', '"skill://b/x\\n"'],
  ['"skill://\u00e4\ud83d\ude00"', '"skill://b/\u00e4\ud83d\ude00"'],
  ['"skill://\\ud800"', '"skill://b/\\ud800"'],
  ['""', '""'],
  [`"skill://${'x'.repeat(65_536 - 10)}"`, `"skill://b/${'x'.repeat(65_536 - 10)}"`],
  [`"skill://${'x'.repeat(65_536)}"`, `"skill://${'x'.repeat(65_536)}"`],
]
for (const [input, expected] of uris)
  test(`a URI: ${input.slice(0, 60)}`, () => {
    const answer = (uri: string) => `{"result":{"contents":[{"uri":${uri},"text":"y"},{"uri":${OWN}}]}}`
    assertRewritten(answer(input), answer(expected).replace(OWN, SHOWN))
  })

test('a result for one caller may not be cached', () => {
  const answer = (ttl: string, scope: string) =>
    `{"ttlMs":1,"result":{"ttlMs":${ttl},"x":{"ttlMs":5,"cacheScope":"public"},"cacheScope":${scope},"contents":[]}}`
  for (const ttl of ['0', '3600000', '1e9', '"x"', 'null', '-1'])
    assertRewritten(answer(ttl, '"public"'), answer('0', '"private"'), true)
  assertRewritten(answer('0', '"private"'), answer('0', '"private"'), true)
  assertRewritten(answer('5', '"public"'), answer('5', '"public"'))
  assertRewritten('{"result":{"ttlMs" : 5 }}', '{"result":{"ttlMs" : 0 }}', true)
  assertRewritten('{"result":{"cach\\u0065Scope":"p\\u0075blic"}}', '{"result":{"cach\\u0065Scope":"private"}}', true)
})

const NAMES = 'uri resource content contents messages _meta ui resourceUri ui~resourceUri result error data'.split(' ')
const IN_RESULT = [
  'contents/*/uri',
  ...['content/*', 'messages/*/content', 'messages/*/content/*'].flatMap((at) => [`${at}/uri`, `${at}/resource/uri`]),
  '_meta/ui/resourceUri',
  '_meta/ui~resourceUri',
]
/** `~` stands for a slash in a name. */
const PLACES = ['error/data/uri', ...IN_RESULT.flatMap((at) => [`result/${at}`, `result/result/${at}`])]

test('random answers are changed only at these places', () => {
  const number = createNumbers(7)
  const pickOne = <T>(all: readonly T[]): T => all[number(all.length)] as T
  const space = () => pickOne(['', '', '', ' ', '\n\t'])
  const spell = (text: string) =>
    JSON.stringify(text).replace(/[a-z]/g, (letter) =>
      number(20) > 0 ? letter : `\\u00${letter.charCodeAt(0).toString(16)}`,
    )
  /** The text that the server sends, and the text that the client gets. */
  type Both = readonly [input: string, expected: string]
  const join = (open: string, parts: readonly Both[], close: string): Both =>
    [0, 1].map((side) => open + parts.map((part) => part[side]).join(',') + close) as unknown as Both
  const unchanged = (text: string): Both => [text, text]
  /** Returns the names, and `*`, on the way from here to a place. */
  const onward = (path: readonly string[]) => {
    const here = path.map((name) => `${name}/`).join('')
    return PLACES.filter((place) => place.startsWith(here)).map((place) => place.slice(here.length).split('/')[0])
  }
  const valueAt = (path: readonly string[]): Both => {
    const next = onward(path)
    // Most values are of the type that leads to such a place.
    const likely = next.length > 0 && number(8) > 0 ? (pickOne(next) === '*' ? 1 : 0) : number(4)
    const kind = path.length === 0 ? 0 : path.length > 8 ? 2 + number(2) : likely
    if (kind === 0)
      return join(
        '{',
        makeSome(path.length === 0 ? 3 : 4, () => memberAt(path)),
        `${space()}}`,
      )
    if (kind === 1)
      return join(
        '[',
        makeSome(3, () => valueAt([...path, '*'])),
        ']',
      )
    if (kind === 2) return unchanged(pickOne(['null', '-1.5e3', 'true', '12345678901234567890']))
    const uri = pickOne(['skill://x', 'skill://"\\y', 'file:///z', '\u00e4{"uri":"'])
    const input = spell(uri)
    const isChanged = PLACES.includes(path.join('/')) && prefixUri(uri) !== uri
    return [input, isChanged ? JSON.stringify(prefixUri(uri)) : input]
  }
  const makeSome = (most: number, make: () => Both) => Array.from({ length: number(most + 1) }, make)
  const memberAt = (path: readonly string[]): Both => {
    const names = onward(path).filter((name) => name !== '*')
    const name = names.length > 0 && number(4) > 0 ? (pickOne(names) as string) : pickOne(NAMES)
    const before = `${space()}${spell(name.replace('~', '/'))}${space()}:${space()}`
    const [input, expected] = valueAt([...path, name])
    const behind = space()
    return [before + input + behind, before + expected + behind]
  }
  let changed = 0
  for (let count = 0; count < 3_000; count++) {
    const [input, expected] = valueAt([])
    assert.ok(JSON.parse(input))
    if (input !== expected) changed++
    assert.is(renameUris(Buffer.from(input), prefixUri).toString(), expected)
    assert.is(inChunks(input, 1 + number(12), false), expected)
  }
  assert.ok(changed > 500, `only ${changed} had a place`)
})

test.run()
