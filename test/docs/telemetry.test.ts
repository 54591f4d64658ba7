/**
 * Checks docs/telemetry.md: its manifests are valid and reach the pods, and its metrics and attributes are those of the
 * code.
 */
import { globSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'

const root = new URL('../..', import.meta.url).pathname
const text = readFileSync(`${root}docs/telemetry.md`, 'utf8')
const [block = ''] = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
const code = globSync('dataplane/**/*.ts', { cwd: root })
  .map((file) => readFileSync(`${root}${file}`, 'utf8'))
  .join('\n')

test('the example is valid and reaches the configuration of the server', () => {
  const plans = plansOfText(block)
  const plan = plans.get('MCPServer/fetcher')
  assert.is(condition(plans.get('MCPTelemetryConfig/otel'), 'Ready'), 'True Ready')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.is(condition(plan, 'TelemetryWarning'), undefined)
  assert.match(configText(plan), /endpoint: https:\/\/collector\.monitoring\.svc:4318/)
  assert.match(configText(plan), 'file: ../secrets/collector/authorization')
  assert.not.match(configText(plan), 'change-me')
})

test('every metric and attribute that is named is in the code', () => {
  const names = [
    ...text.matchAll(/`((?:mcp|gen_ai|portico|jsonrpc|http|server|client|user_agent|network)\.[a-z_.]+)`/g),
  ]
  assert.ok(names.length > 20)
  for (const [, name = ''] of names) assert.ok(code.includes(`'${name}'`), name)
})

test.run()
