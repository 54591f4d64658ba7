/** Tests templates of composite tools: their values, their findings, and their cost, which nobody can make high. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compileWorkflow } from '../../../dataplane/config/workflow/compile.ts'
import { parseTemplate } from '../../../dataplane/config/workflow/parse-template.ts'
import { TemplateError } from '../../../dataplane/config/workflow/template.ts'
import { evaluate } from '../../../dataplane/gateway/workflows/evaluate.ts'

const params = JSON.parse('{"a":{"b":[1,"two"]},"n":3,"t":"text","no":false,"__proto__":{"x":1}}')
const steps = { 'fetch-it': { output: { text: '{"deep":[7]}' } } }
const give = (text: string) => evaluate(parseTemplate(text), { params, steps, forEach: { item: 'i', index: 0 } })

for (const [text, value] of [
  ['plain', 'plain'],
  ['{{.params.a}}', { b: [1, 'two'] }],
  ['{{ .params.n }}', 3],
  ['n={{.params.n}} {{- " x" }}', 'n=3 x'],
  ['{{.params.none}}', undefined],
  ['<{{.params.none}}>', '<>'],
  ['{{index .params.a.b 1}}', 'two'],
  ['{{index .steps "fetch-it" "output" "text" | fromJson | json}}', '{"deep":[7]}'],
  ['{{(fromJson .steps.fetch-it.output.text).deep}}', [7]],
  ['{{if .params.no}}a{{else if eq .params.n 3}}b{{else}}c{{end}}', 'b'],
  ['{{and .params.t (not .params.no) | printf "%v!"}}', 'true!'],
  ['{{.params.none | default "usual"}}', 'usual'],
  ['{{printf "%q %d%%" .params.t .params.n}}', '"text" 3%'],
  ['{{len .params.a.b}}', 2],
  ['{{/* nothing */}}{{.forEach.index}}', 0],
  ['{{.params.__proto__.x}}', 1],
  ['{{.params.constructor}}', undefined],
  ['{{.params.t.length}}', undefined],
  ['{{.params.a.b.length}}', undefined],
  ['{{index .params.a "toString"}}', undefined],
] as const)
  test(`${text} gives ${JSON.stringify(value)}`, () => {
    assert.equal(give(text), value)
  })

for (const [text, message, at] of [
  ['{{.params.a', 'not closed', 11],
  ['{{range .params.a}}x{{end}}', 'range is not supported', 2],
  ['{{$x := 1}}', 'variables are not supported', 2],
  ['{{.secrets.x}}', '.secrets is unknown', 2],
  ['{{env "HOME"}}', 'there is no function env', 2],
  ['{{if .params.a}}x', 'has no {{end}}', 0],
  ['x{{end}}', 'has no {{if}} before it', 3],
  ['{{eq 1}}', 'eq takes 2 to 16 arguments', 2],
  ['{{"open}}', 'not closed', 2],
] as const)
  test(`${text} is refused at its place`, () => {
    try {
      parseTemplate(text)
      assert.unreachable()
    } catch (error) {
      assert.instance(error, TemplateError)
      assert.match((error as TemplateError).message, message)
      assert.is((error as TemplateError).at, at)
    }
  })

test('the time to read a template is linear in its length', () => {
  const hostile = [
    '('.repeat(32_000),
    '.a'.repeat(32_000),
    '"'.repeat(64_000),
    '\\'.repeat(64_000),
    '-'.repeat(64_000),
    ' '.repeat(64_000),
  ].flatMap((inside) => [`{{${inside}`, `{{.params${inside}}}`, `{{"${inside}}}`])
  const nested = '{{if .params.n}}'.repeat(4_000)
  const from = performance.now()
  for (const text of [...hostile, nested, '{{'.repeat(32_000), '{{/*'.repeat(16_000)])
    try {
      parseTemplate(text)
    } catch (error) {
      assert.instance(error, TemplateError)
    }
  // Quadratic time would take minutes.
  assert.ok(performance.now() - from < 20_000)
})

test('all references of templates are checked with the definition', () => {
  const { findings } = compileWorkflow({
    name: 'w',
    parameters: { type: 'object', properties: { a: { type: 'string', pattern: '^a+$' } } },
    steps: [
      { id: 'a', type: 'tool', tool: 't', dependsOn: ['b'], arguments: { x: ['{{.params.z}}'] } },
      { id: 'b', type: 'tool', tool: 't', dependsOn: ['a', 'gone'], condition: '{{.forEach.item}}' },
      { id: 'c', type: 'tool', tool: 't', arguments: { y: '{{.steps.a.output.x}} {{.steps.none.output}}' } },
    ],
  } as never)
  assert.equal(
    findings.map(({ pointer, message }) => `${pointer}: ${message}`),
    [
      '/parameters/properties/a/pattern: is not a supported keyword: leave it out, and let the called tool check it',
      '/steps/1/dependsOn/1: there is no step "gone"',
      '/steps: these wait for each other: a, b',
      '/steps/0/arguments/x/0: there is no parameter "z" (character 3)',
      '/steps/1/condition: .forEach is only available in the repeated step (character 3)',
      '/steps/2/arguments/y: refers to step "a", which may still be running: name it in dependsOn (character 3)',
      '/steps/2/arguments/y: there is no step "none" (character 25)',
    ],
  )
})

test('fields of a forEach are refused at other steps', () => {
  const step = { id: 'one', type: 'tool' as const, tool: 'a.b', itemVar: 'it', maxIterations: 3, maxParallel: 2 }
  const { findings } = compileWorkflow({ name: 'a', steps: [step] })
  assert.equal(
    findings.map(({ pointer }) => pointer),
    ['/steps/0/itemVar', '/steps/0/maxIterations', '/steps/0/maxParallel'],
  )
})

test.run()
