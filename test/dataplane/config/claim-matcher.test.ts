import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compileClaimMatcher } from '../../../dataplane/config/check/claim-matcher.ts'

const claims = { groups: ['admins', 'dev-1'], email: 'a@corp.example', level: 3, nested: { constructor: 'x', a: [1] } }

test('conditions over claims', () => {
  for (const text of [
    '"admins" in claims.groups',
    '"admins" in claims["groups"]',
    'claims.groups.exists(g, g.startsWith("dev-"))',
    'claims.groups.all(g, size(g) > 2) && !("x" in claims.groups)',
    'has(claims.email) && claims.email.endsWith("@corp.example")',
    'claims.level >= 3 ? true : false',
    'claims.nested.constructor == "x"',
    'claims.email in ["a@corp.example", "b"]',
  ])
    assert.is(compileClaimMatcher(text)(claims), true, text)
  for (const text of ['claims.none == 1', 'claims.level == "3"', 'claims.email', 'claims.constructor == claims.x'])
    assert.is(compileClaimMatcher(text)(claims), false, text)
  for (const odd of [{}, { groups: null }, { groups: 'admins' }, { groups: { admins: 1 } }, { groups: [{}, 1] }])
    assert.type(compileClaimMatcher('"admins" in claims.groups')(odd), 'boolean')
})

test('a condition without bounded cost, or with a syntax error, is refused in the configuration', () => {
  for (const text of [
    ...['', 'claims.a ==', '(', '"a"', 'size(claims)', 'nope == 1', 'claims.a.nope()', '1 + 1 == 2'],
    ...['claims.a.matches("(a+)+$")', 'claims.a.map(x, x) == []', 'claims.a.filter(x, true) == []'],
    'claims.a.exists(x, claims.b.exists(y, x == y))',
    'claims.a.exists(x, ["a"].exists(y, x == y))',
    'claims.a.exists(x, x in claims.a)',
    'claims.a.exists(x, x.matches("a"))',
    `${'('.repeat(500)}true${')'.repeat(500)}`,
    Array(300).fill('claims.a == 1').join(' || '),
    'claims.a + claims.a == "x"',
    'bytes(claims.a).json() == {}',
  ])
    assert.throws(
      () => compileClaimMatcher(text),
      (error: unknown) => error instanceof TypeError && !error.message.includes('\n'),
      text.slice(0, 60),
    )
})

const joinWithOr = (count: number, part: string) => Array(count).fill(part).join(' || ')

test('a condition does not match claims that would take too long', () => {
  const alternate = (length: number) => 'ab'.repeat(length / 2)
  const texts = { x: `${alternate(15_000)}c${alternate(15_000)}`, y: alternate(60_000) }
  const list = { l: Array(15_000).fill('x'), m: Array(15_000).fill('x') }
  const cases: readonly (readonly [string, Readonly<Record<string, unknown>>])[] = [
    ['claims.y.contains(claims.x)', texts],
    ['claims.l.exists(g, g.s.contains(g.t))', { l: [{ s: texts.y, t: texts.x }] }],
    [`claims.l.exists(g, ${joinWithOr(40, 'g.a.b')})`, list],
    [`claims.l.exists(g, ${joinWithOr(40, 'g')})`, list],
    [`claims.l.exists(g, ${joinWithOr(40, '!g')})`, list],
    [`claims.l.all(g, ${joinWithOr(40, 'g < 1')})`, list],
    [`claims.l.all(g, ${joinWithOr(30, 'g[0] == 1')})`, list],
    [`claims.l.all(g, ${joinWithOr(30, 'size(g) == 1')})`, list],
    [`claims.l.exists(g, ${joinWithOr(20, '(g ? g : g)')})`, list],
    [joinWithOr(15, 'claims.l.exists(g, g.a)'), list],
    [
      `claims.m.exists(g, ${joinWithOr(40, 'g.a.b')})`,
      { m: Object.fromEntries(list.l.map((_, index) => [index, index])) },
    ],
  ]
  // Each of them took between 0.2 and 12 s. An expression that is not evaluated does not match.
  for (const [text, large] of cases) assert.is(compileClaimMatcher(`${text} || true`)(large), false, text.slice(0, 60))
  // Common claims are evaluated: thousands of groups, and a long value that is not text.
  const groups = [...Array.from({ length: 1_500 }, (_, index) => `group-${index}`), { odd: 1 }, 'dev-x']
  for (const text of [
    'claims.groups.exists(g, g.startsWith("dev-"))',
    `claims.groups.exists(g, ${joinWithOr(20, 'g == "none"')} || g == "dev-x")`,
    `claims.groups.exists(g, ${joinWithOr(5, 'g.startsWith("none")')} || g.endsWith("-x"))`,
    'claims.long.contains("aaab") && "dev-x" in claims.groups',
    'claims.short.contains(claims.sub)',
  ])
    assert.is(
      compileClaimMatcher(text)({
        groups,
        sub: 's',
        short: 'is',
        ...(text.includes('long') && { long: `${'a'.repeat(50_000)}b` }),
      }),
      true,
      text,
    )
})

test('a condition reads changed claims', () => {
  const matches = compileClaimMatcher('claims.a == "x"')
  assert.equal([{ a: 'x' }, { a: 'y' }, { a: 'x' }].map(matches), [true, false, true])
})

test('a condition over large claims is quick', () => {
  const large = { a: Array.from({ length: 20_000 }, (_, index) => `group-${index}`), b: 'x'.repeat(200_000) }
  const before = process.cpuUsage()
  for (const text of ['claims.a.exists(x, x == "none")', '"none" in claims.a', 'claims.b.contains("y")'])
    assert.is(compileClaimMatcher(text)(large), false)
  assert.ok(process.cpuUsage(before).user < 2_000_000)
})

test.run()
