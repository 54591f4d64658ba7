import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  addParamHeaders,
  checkParamHeaders,
  decodeHeaderValue,
  encodeHeaderValue,
  readParamHeaders,
} from '../../../../dataplane/gateway/mcp/eras.ts'

for (const value of [
  '',
  'plain',
  'with space',
  'tab\tin',
  ' led',
  'trailed ',
  'é',
  '日本',
  'a\nb',
  '=?base64?Zm9v?=',
  '=?base64?x',
  '\u0000',
  '𝄞',
])
  test(`round trip of ${JSON.stringify(value)}`, () => {
    const encoded = encodeHeaderValue(value)
    assert.match(encoded, /^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$/)
    assert.is(decodeHeaderValue(encoded, 'X'), value)
  })

for (const header of ['=?base64?!!?=', '=?base64?Zm9?=', '=?base64?Zm9vYg==x?=', '=?base64?/w==?=', 'é', ' x'])
  test(`refused: ${header}`, () => assert.throws(() => decodeHeaderValue(header, 'X'), /X holds/))

test('plain values stay plain', () => {
  assert.is(encodeHeaderValue('us-east 1'), 'us-east 1')
  assert.is(decodeHeaderValue('=?BASE64?Zm9v?=', 'X'), '=?BASE64?Zm9v?=')
})

const schema = (properties: object) => ({ type: 'object', properties })
const markHeader = (name: unknown, type: unknown = 'string') => ({ type, 'x-mcp-header': name })

test('declared headers are found at any depth of properties', () => {
  const found = readParamHeaders(
    schema({ a: markHeader('Region'), b: schema({ c: markHeader('Deep', 'integer') }), d: { type: 'string' } }),
  )
  assert.equal(found, [
    { header: 'mcp-param-region', path: ['a'] },
    { header: 'mcp-param-deep', path: ['b', 'c'] },
  ])
})

test('a member that only looks like a declaration is none', () => {
  assert.equal(readParamHeaders(schema({ 'x-mcp-header': { type: 'string' } })), [])
  assert.equal(readParamHeaders({ type: 'object', default: { 'x-mcp-header': 5 }, enum: [{ 'x-mcp-header': 5 }] }), [])
  assert.equal(readParamHeaders(undefined), [])
  assert.equal(readParamHeaders({ properties: { properties: schema({ properties: markHeader('P') }) } }), [
    { header: 'mcp-param-p', path: ['properties', 'properties'] },
  ])
})

const invalid: readonly [string, unknown][] = [
  ['at the root', { type: 'object', 'x-mcp-header': 'X' }],
  ['no token', schema({ a: markHeader('a b') })],
  ['empty', schema({ a: markHeader('') })],
  ['no text', schema({ a: markHeader(5) })],
  ['on a number', schema({ a: markHeader('X', 'number') })],
  ['on an object', schema({ a: markHeader('X', 'object') })],
  ['without a type', schema({ a: { 'x-mcp-header': 'X' } })],
  ['twice', schema({ a: markHeader('X'), b: markHeader('x') })],
  ['in items', schema({ a: { type: 'array', items: markHeader('X') } })],
  ['in anyOf', schema({ a: { anyOf: [markHeader('X')] } })],
  ['in $defs', { type: 'object', $defs: { x: markHeader('X') } }],
  ['in additionalProperties', { type: 'object', additionalProperties: markHeader('X') }],
  ['in properties below items', schema({ a: { items: schema({ b: markHeader('X') }) } })],
]
for (const [name, value] of invalid)
  test(`an invalid declaration: ${name}`, () => assert.throws(() => readParamHeaders(value), /x-mcp-header/))

const declarations = readParamHeaders(
  schema({ r: markHeader('Region'), n: markHeader('N', 'integer'), b: markHeader('B', 'boolean') }),
)

test('arguments become headers', () => {
  const headers: string[] = []
  addParamHeaders(headers, declarations, { r: 'é', n: 42, b: false })
  assert.equal(headers, ['mcp-param-region', '=?base64?w6k=?=', 'mcp-param-n', '42', 'mcp-param-b', 'false'])
  const none: string[] = []
  addParamHeaders(none, declarations, { r: null })
  assert.equal(none, [])
})

test('headers must repeat the arguments', () => {
  const check = (headers: Record<string, string>, args: unknown) => checkParamHeaders(headers, declarations, args)
  check({ 'mcp-param-region': 'eu', 'mcp-param-n': '7.0', 'mcp-param-b': 'true' }, { r: 'eu', n: 7, b: true })
  check({ 'mcp-param-region': '=?base64?ZXU=?=', 'mcp-param-unknown': 'x' }, { r: 'eu' })
  check({}, {})
  check({}, { r: null })
  assert.throws(() => check({}, { r: 'eu' }), /missing/)
  assert.throws(() => check({ 'mcp-param-region': 'us' }, { r: 'eu' }), /differs/)
  assert.throws(() => check({ 'mcp-param-region': 'EU' }, { r: 'eu' }), /differs/)
  assert.throws(() => check({ 'mcp-param-region': 'eu' }, {}), /differs/)
  assert.throws(() => check({ 'mcp-param-n': '8' }, { n: 7 }), /differs/)
})

test.run()
