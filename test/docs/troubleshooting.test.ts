/** Checks that the pages for operators name only conditions, reasons, error codes, fields and commands that exist. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kinds } from '../../crds/index.ts'
import { errorTable } from '../../dataplane/server/errors.ts'
import { conditionTypes, fileReasons, reasons } from '../../operator/model/reasons.ts'

const root = new URL('../../', import.meta.url)
const page = (name: string) => readFileSync(new URL(`docs/${name}.md`, root), 'utf8')
const pages = ['troubleshooting', 'production', 'glossary', 'first-hour'].map(page).join('\n')
const findNames = (text: string, pattern: RegExp) =>
  new Set([...text.matchAll(pattern)].map((match) => match[1] as string))
/** Words in code that look like a reason but are not. */
const OTHER_WORDS = new Set(['Authorization', 'Host', 'Origin', 'Terminating'])

test('each condition, reason, kind and alert that is named exists', () => {
  const words = findNames(pages, /`([A-Z][a-z]+(?:[A-Z][A-Za-z]+)*)`/g)
  const rules = readFileSync(new URL('operator/deploy/monitoring/rules.yaml', root), 'utf8')
  const alerts = [...findNames(rules, /alert: (\w+)/g)]
  const known = new Set(
    [conditionTypes, reasons, fileReasons, kinds].flatMap((table) => Object.keys(table)).concat(alerts),
  )
  assert.ok(words.size > 40, String(words.size))
  assert.equal(
    [...words].filter((word) => !known.has(word) && !OTHER_WORDS.has(word)),
    [],
  )
})

test('each error code of /mcp that is named exists, under its HTTP status', () => {
  const sections = page('troubleshooting').split(/^##+ /m)
  let found = 0
  for (const section of sections.filter((each) => /^[45]\d\d: /.test(each))) {
    const status = Number(section.slice(0, 3))
    for (const [, code = ''] of section.matchAll(/^\| `(\w+)`(?:, `\w+`)* \||^The code is `(\w+)`/gm)) {
      if (code === '') continue
      found++
      const row = errorTable[code as keyof typeof errorTable]
      assert.ok(row, code)
      // Errors of a call are JSON-RPC answers; over plain HTTP their status is 502.
      assert.is(row.http === 200 ? 502 : row.http, status, code)
    }
  }
  assert.ok(found > 10, String(found))
})

test('each command and option that is named exists', () => {
  const reference = page('reference/commands')
  const calls = [...pages.matchAll(/(?:`|^)(?:bin\/)?(kubectl[ -]portico|portico) ([a-z]+)((?: [^`\n]*)?)/gm)]
  assert.ok(calls.length > 20, String(calls.length))
  for (const [line, program = '', command = '', rest = ''] of calls) {
    const heading = `### ${program.replace('-', ' ')} ${command}\n`
    const [, section] = reference.split(heading)
    assert.ok(section, line)
    const [help = ''] = section.split('\n### ')
    for (const [option] of rest.replace(/#.*/, '').matchAll(/--[a-z-]+/g)) assert.ok(help.includes(`${option} `), line)
  }
})

test.run()
