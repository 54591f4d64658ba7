import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  canonicalDefinition,
  DIGEST_PATTERN,
  definitionDigest,
  instructionsDigest,
  setDigest,
} from '../../crds/settings/definition-digest.ts'
import { createRandom } from '../support/random.ts'

interface Vectors {
  readonly definitions: readonly { readonly about: string; readonly input: string; readonly hash: string }[]
  readonly sets: readonly { readonly about: string; readonly pages: readonly string[]; readonly setHash: string }[]
  readonly instructions: readonly { readonly instructions: string; readonly hash: string }[]
  readonly invalid: readonly { readonly about: string; readonly input?: string; readonly pages?: readonly string[] }[]
}
const file = new URL('definition-digest-vectors.json', import.meta.url)
const vectors = JSON.parse(readFileSync(file, 'utf8')) as Vectors

/** Returns the texts of the definitions on all pages. No vector has white space between definitions. */
const textsIn = (pages: readonly string[]): string[] =>
  pages.flatMap((page) => (JSON.parse(page) as unknown[]).map((definition) => JSON.stringify(definition)))

for (const { about, input, hash } of vectors.definitions)
  test(`mcp-pin’s vector: ${about}`, () => assert.is(definitionDigest(input), `sha256:${hash}`))
for (const { about, pages, setHash } of vectors.sets)
  test(`mcp-pin’s vector of a set: ${about}`, () => assert.is(setDigest(textsIn(pages)), `sha256:${setHash}`))
for (const { instructions, hash } of vectors.instructions)
  test(`mcp-pin’s vector of instructions: ${JSON.stringify(instructions)}`, () =>
    assert.is(instructionsDigest(instructions), `sha256:${hash}`))
for (const { about, input, pages } of vectors.invalid)
  test(`mcp-pin’s vector without a hash: ${about}`, () => {
    if (input !== undefined) assert.is(definitionDigest(input), undefined)
    assert.is(setDigest(input === undefined ? textsIn(pages ?? []) : [input]), undefined)
  })

test('RFC 8785 section 3.2.4: the bytes of the example', () => {
  const text =
    '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}'
  const bytes =
    '7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a5b3333333333333333332e333333333333332c31652b33302c342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac245c75303030665c6e4127425c225c5c5c5c5c222f227d'
  assert.is(Buffer.from(canonicalDefinition(text) ?? '').toString('hex'), bytes)
})

// RFC 8785 appendix B: IEEE 754 doubles and how they are written.
for (const [bits, written] of [
  ['0000000000000000', '0'],
  ['8000000000000000', '0'],
  ['0000000000000001', '5e-324'],
  ['8000000000000001', '-5e-324'],
  ['7fefffffffffffff', '1.7976931348623157e+308'],
  ['4340000000000000', '9007199254740992'],
  ['4430000000000000', '295147905179352830000'],
  ['44b52d02c7e14af5', '9.999999999999997e+22'],
  ['44b52d02c7e14af6', '1e+23'],
  ['444b1ae4d6e2ef4e', '999999999999999700000'],
  ['444b1ae4d6e2ef50', '1e+21'],
  ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
  ['3eb0c6f7a0b5ed8d', '0.000001'],
  ['41b3de4355555553', '333333333.3333332'],
  ['becbf647612f3696', '-0.0000033333333333333333'],
  ['43143ff3c1cb0959', '1424953923781206.2'],
])
  test(`RFC 8785 appendix B: ${bits} is written ${written}`, () => {
    const value = Buffer.from(bits as string, 'hex').readDoubleBE()
    assert.is(canonicalDefinition(value.toExponential()), written)
  })

for (const [one, other] of [
  ['{"a!":1,"a":2}', '{"a":2,"a!":1}'],
  ['{"\\u0061":1}', '{"a":1}'],
  ['[1.0,1e2,-0]', '[1, 100, 0]'],
  ['{"a":{"c":[{}],"b":"é"}}', ' {\n"a" : { "b":"\\u00E9", "c": [ { } ] } }\t'],
])
  test(`${one} and ${JSON.stringify(other)} have the same digest`, () =>
    assert.is(definitionDigest(one as string), definitionDigest(other as string)))

for (const [one, other] of [
  ['"é"', '"e\\u0301"'],
  ['{"a":"b"}', '{"a":"b\\u200b"}'],
  ['{"a":null}', '{}'],
  ['{"a":1}', '{"a":"1"}'],
  ['{"a":true}', '{"a":"true"}'],
])
  test(`${one} and ${other} have different digests`, () =>
    assert.is.not(definitionDigest(one as string), definitionDigest(other as string)))

for (const [what, text] of Object.entries({
  'a repeated name in different spellings': '{"ab":1,"\\u0061b":1}',
  'a repeated __proto__': '{"__proto__":1,"__proto__":1}',
  'a repeated name with one value': '{"a":1,"a":1}',
  'a repeated name in a list': '[{"a":[{"b":1,"b":2}]}]',
  'a number beyond a double': '{"a":1e400}',
  'a depth of 65': `${'['.repeat(65)}${']'.repeat(65)}`,
  'a depth of 100,000': `${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}`,
  'no JSON': '{"a":1',
  'text after it': '{} {}',
  nothing: '',
}))
  test(`${what} has no digest`, () => assert.is(definitionDigest(text), undefined))

test('an escaped name is kept after an object whose name is a backslash', () => {
  JSON.parse('{"😀":true,"\\\\":true}')
  assert.is(canonicalDefinition('{"😀":true,"\\u20ac":true}'), '{"€":true,"😀":true}')
})

test('a depth of 64, a member named __proto__ and a megabyte have a digest', () => {
  for (const text of [
    `${'['.repeat(64)}${']'.repeat(64)}`,
    '{"__proto__":{"a":1}}',
    JSON.stringify('x'.repeat(2 ** 20)),
  ])
    assert.match(definitionDigest(text) ?? '', new RegExp(DIGEST_PATTERN))
  assert.is(canonicalDefinition('{"__proto__":{"b":1,"a":2}}'), '{"__proto__":{"a":2,"b":1}}')
})

const random = createRandom(7)
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
const CHARACTERS = [
  'a',
  'b',
  'Z',
  '!',
  '"',
  '\\',
  '/',
  '\n',
  '\u0001',
  '\u007f',
  'é',
  'e\u0301',
  '\u2028',
  '€',
  '😀',
  'דּ',
]
const randomWord = (): string => Array.from({ length: Math.floor(random() * 6) }, () => pick(CHARACTERS)).join('')
const numberText = (): string =>
  pick([
    () => String(Math.floor(random() * 2e6) - 1e6),
    () => (random() * 10 ** (Math.floor(random() * 40) - 20)).toExponential(),
    () => `${Math.floor(random() * 100)}.${Math.floor(random() * 1000)}00E+${Math.floor(random() * 20)}`,
    () => '-0',
    () => '12345678901234567890',
  ])()

/** Returns JSON text of a random value: names in any order, white space and escapes anywhere, no name twice. */
function randomText(depth: number): string {
  const space = () => pick(['', '', ' ', '\n\t'])
  const text = (value: string) =>
    random() < 0.3
      ? `"${[...value].map((one) => [...Array(one.length)].map((_, at) => `\\u${one.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')).join('')}"`
      : JSON.stringify(value)
  const kind = depth === 0 ? Math.floor(random() * 3) : Math.floor(random() * 5)
  if (kind === 0) return text(randomWord())
  if (kind === 1) return numberText()
  if (kind === 2) return pick(['true', 'false', 'null'])
  const size = Math.floor(random() * 5)
  if (kind === 3)
    return `[${Array.from({ length: size }, () => space() + randomText(depth - 1)).join(`${space()},`)}${space()}]`
  // V8 13.6 may read an escaped name of one character as a backslash, once it has read an object with such a name.
  const names = [...new Set(Array.from({ length: size }, randomWord))].filter((name) => !name.includes('\\'))
  return `{${names.map((name) => `${space()}${text(name)}${space()}:${randomText(depth - 1)}`).join(`${space()},`)}${space()}}`
}

test('10,000 random definitions have the same canonical form in npm’s canonicalize and json-canonicalize', async () => {
  const load = async (name: string): Promise<(value: unknown) => string> => {
    const loaded = (await import(name)) as { default?: unknown; canonicalize?: unknown }
    return (loaded.canonicalize ?? loaded.default) as (value: unknown) => string
  }
  const others = await Promise.all(['canonicalize', 'json-canonicalize'].map(load))
  for (let count = 0; count < 10_000; count++) {
    const text = `{"name":${JSON.stringify(randomWord())},"value":${randomText(5)}}`
    for (const canonicalize of others) assert.is(canonicalDefinition(text), canonicalize(JSON.parse(text)))
  }
})

test.run()
