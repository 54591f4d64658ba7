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

test('what can’t be bounded, or is no condition, is refused when it is written', () => {
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

test('large claims cost little', () => {
  const large = { a: Array.from({ length: 20_000 }, (_, index) => `group-${index}`), b: 'x'.repeat(200_000) }
  const before = process.cpuUsage()
  for (const text of ['claims.a.exists(x, x == "none")', '"none" in claims.a', 'claims.b.contains("y")'])
    assert.is(compileClaimMatcher(text)(large), false)
  assert.ok(process.cpuUsage(before).user < 2_000_000)
})

test.run()
