import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { h, htmlText, isSafeLink, toTree, visible } from '../../console/pages/element.ts'

const refused = [
  'javascript:alert(1)',
  'JaVaScRiPt:alert(1)',
  'data:text/html,x',
  'vbscript:x',
  '//evil.example',
  '/\\evil.example',
  '/a\\b',
  '/\tx',
  'http:evil',
  'https://user@evil.example/',
  'file:///etc/passwd',
  'vscode:extension/x',
  'blob:https://x/1',
  ' https://x.example',
]
const allowed = [
  '/',
  '/ns/a/vmcp/b?x=1',
  '#a',
  '?x=1',
  'https://a.example/b',
  'http://127.0.0.1:1/',
  'vscode:mcp/install?%7B%7D',
]

test('only links that lead to a safe place stay on a page', () => {
  for (const link of refused) {
    assert.is(isSafeLink(link), false, link)
    assert.is(htmlText(h('a', { href: link }, 'x')), '<a>x</a>', link)
  }
  for (const link of allowed) assert.is(isSafeLink(link), true, link)
})

test('every text and attribute is escaped', () => {
  const hostile = `</script><img src=x onerror="alert('1')">&{{7*7}}`
  const html = htmlText(h('p', { title: hostile }, hostile))
  assert.not.match(html, /<img|<\/script/)
  assert.is(html.match(/[<>]/g)?.length, 4)
  assert.match(html, '{{7*7}}')
})

test('invisible characters are shown by their code; line feeds and emoji stay', () => {
  assert.is(visible('a\u202eb\u200bc\u0000d\ud800e'), 'a⟨U+202E⟩b⟨U+200B⟩c⟨U+0000⟩d⟨U+D800⟩e')
  assert.is(visible('\u{e0041}\u3164\ufe01'), '⟨U+E0041⟩⟨U+3164⟩⟨U+FE01⟩')
  assert.is(visible('line\n\t❤️ 🎉 é 日本'), 'line\n\t❤️ 🎉 é 日本')
  assert.match(visible('x'.repeat(300_000)), /… \(300000 characters\)$/)
})

test('submitted and copied text stays exact', () => {
  const odd = `a\u200b\u202e<"${'x'.repeat(30_000)}`
  const escaped = odd.replace('<', '&lt;').replace('"', '&quot;')
  assert.is(htmlText(h('input', { name: odd, value: odd })), `<input name="${escaped}" value="${escaped}">`)
  assert.is(htmlText(h('textarea', {}, odd)), `<textarea>\n${escaped}</textarea>`)
  assert.equal(toTree(h('button', { 'data-copy': odd, title: 'b\u200b' })), [
    'button',
    { 'data-copy': odd, title: 'b⟨U+200B⟩' },
  ])
})

test('the tree of an element holds the same as its HTML', () => {
  const element = h('ul', { class: 'a', hidden: false }, [h('li', {}, 1), null, [h('li', {}, 'b\u200b')]])
  assert.equal(toTree(element), ['ul', { class: 'a' }, ['li', {}, '1'], ['li', {}, 'b⟨U+200B⟩']])
})

test.run()
