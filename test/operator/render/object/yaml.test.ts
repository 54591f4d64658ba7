import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { stringify } from 'yaml'
import { blockYaml, canonicalYaml, YAML_OPTIONS } from '../../../../operator/render/object/canonical.ts'
import { createNumbers } from '../../../support/random.ts'

const ofLibrary = (value: unknown) => stringify(value, YAML_OPTIONS)

/** Pieces of text that YAML may read as something else. */
const PIECES = [
  ...'a Z no On y N true NULL null ~ 0 1 12:30 0x1f 0o7 1e3 .5 .inf 2026-11-26 nan << = : # - -- --- ... ? !'.split(
    ' ',
  ),
  ...`& * % @ \` " ' | > [ ] { } , \\ / . _ é https://mcp.example/mcp portico.dev/name sha256:0a`.split(' '),
  ...[': ', ' #', '- ', ' ', '  ', '\t', '\u{1f512}', '\ud800', '\u0000', '\u0085', '\u2028', '\ufeff', '\u007f'],
]
const ENDS = ['\n', '\r\n', '\r', '\n\n', ' \n ', '\n---\n']

/** Returns random JSON data; with `lines` its text may span several lines. */
function generateData(seed: number, lines: boolean): unknown {
  const below = createNumbers(seed)
  const pick = <T>(from: readonly T[]) => from[below(from.length)] as T
  const text = () =>
    Array.from({ length: below(4) }, () => (lines && below(4) === 0 ? pick(ENDS) : pick(PIECES))).join('')
  const numbers = [0, -0, 1, -17, 0.05, 1e21, 1e-7, 2 ** 53, Number.MAX_VALUE, 5e-324]
  const value = (depth: number): unknown => {
    const kind = below(depth > 4 ? 5 : 9)
    if (kind === 0) return pick([null, true, false, undefined])
    if (kind === 1) return pick(numbers)
    if (kind < 5) return text()
    if (kind < 7) return Array.from({ length: below(4) }, () => value(depth + 1))
    return Object.fromEntries(Array.from({ length: below(5) }, () => [text(), value(depth + 1)]))
  }
  return value(0)
}

test('random data is written as the library writes it, byte for byte', () => {
  for (let seed = 0; seed < 3000; seed++) {
    const value = generateData(seed, seed % 3 === 0)
    if (value === undefined) continue
    assert.is(canonicalYaml(value), ofLibrary(value), `seed ${seed}`)
  }
})

test('each piece of text alone, as value, item and key, at the top and below', () => {
  for (const piece of [...PIECES, ...ENDS, 'k'.repeat(2000)])
    for (const text of [piece, `a${piece}`, `${piece}a`, `a${piece}a`])
      for (const value of [text, [text], { a: text }, [[text]], { a: [{ b: text }] }, { [text]: 1 }, [{ [text]: [1] }]])
        assert.is(canonicalYaml(value), ofLibrary(value), JSON.stringify(value))
})

test('a configuration without text of several lines is not left to the library', () => {
  const config = {
    name: 'a',
    backends: [{ url: 'https://a.example/mcp', headers: { 'X-A': 'no: yes' } }],
    rate: 0.05,
    none: {},
  }
  assert.is(blockYaml(config), ofLibrary(config))
  assert.is(blockYaml({ text: 'two\nlines' }), undefined)
})

test('values that are not JSON data are left to the library', () => {
  for (const value of [
    new Date(0),
    new Map([['a', 1]]),
    new Set([1]),
    [new Date(0)],
    { a: { toJSON: () => 'b' } },
    12n,
  ]) {
    assert.is(blockYaml(value), undefined)
    assert.is(canonicalYaml(value), ofLibrary(value))
  }
})

test.run()
