/**
 * Checks docs/audit.md: its manifests are valid and reach the pods, its events are those of the code, and its line has
 * their form.
 */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { DEFAULT_GROUP, validateObject } from '../../crds/index.ts'
import { AuditLines } from '../../dataplane/audit/lines.ts'
import { gatewayEvents, registryEvents } from '../../dataplane/config/audit/event-types.ts'
import { errorTable } from '../../dataplane/server/errors.ts'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'

const text = readFileSync(new URL('../../docs/audit.md', import.meta.url), 'utf8')
const block = (language: string) => new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'ms').exec(text)?.[1] ?? ''

test('the examples are valid and reach the configurations', () => {
  const manifests = block('yaml')
  for (const document of parseAllDocuments(manifests))
    assert.equal(validateObject(document.toJS() as never, DEFAULT_GROUP), [])
  const plans = plansOfText(manifests)
  const parseConfig = (key: string) => {
    assert.is(condition(plans.get(key), 'Valid'), 'True ConfigValid')
    return configText(plans.get(key))
  }
  assert.match(parseConfig('MCPServer/fetcher'), /audit:\n {2}enabled: true\n {2}excludeEventTypes:\n {4}- mcp_ping/)
  assert.match(parseConfig('VirtualMCPServer/tools'), /audit:\n {2}component: front-door/)
  assert.match(parseConfig('MCPRegistry/catalog'), /audit:\n {2}component: catalog\n {2}enabled: true/)
})

test('an unknown event is a condition that names the field', () => {
  const manifests = block('yaml').replace('[mcp_ping, mcp_notification]', '[mcp_pong]').replace('10.0.0.0/8', '10/8')
  const plan = plansOfText(manifests).get('MCPServer/fetcher')
  const text = condition(plan, 'Valid') ?? ''
  assert.match(
    text,
    /^False ConfigInvalid: \/spec\/audit\/excludeEventTypes\/0 there is no event "mcp_pong"; the events are .*mcp_ping/,
  )
  assert.match(text, /\/spec\/audit\/trustedProxies\/0 "10\/8" is neither an address nor a network/)
})

test('every event is documented, and no other', () => {
  const table = text.slice(text.indexOf('## Events'), text.indexOf('## When it'))
  const named = [...table.matchAll(/^\| (`.*?`) \|/gm)].flatMap((row) => [...(row[1] as string).matchAll(/`(\w+)`/g)])
  assert.equal(named.map((name) => name[1]).sort(), [...new Set([...gatewayEvents, ...registryEvents])].sort())
})

test('every error code is in the table that `error` refers to, with its answer', () => {
  assert.match(text, '[below](#errors)')
  const lines = text.slice(text.indexOf('\n## Errors\n')).split('\n')
  for (const [code, { http, rpc, text: message }] of Object.entries(errorTable))
    assert.ok(lines.includes(`| \`${code}\` | ${http} | ${rpc} | ${message} |`), code)
  const rows = lines.filter((line) => line.startsWith('| `')).length
  assert.is(rows, Object.keys(errorTable).length + ['backend_error', 'config_refused'].length)
})

test('the shown line has the members of a real one', () => {
  const example = JSON.parse(block('json'))
  let line = ''
  const lines = new AuditLines({ enabled: true }, 'tools', (written) => (line = written))
  lines.write({
    type: 'mcp_tool_call',
    outcome: 'success',
    request: { socket: { remoteAddress: '198.51.100.7' }, headers: { 'user-agent': 'desk/1.4' } },
    requestId: example.request_id,
    traceparent: `00-${example.trace_id}-00f067aa0ba902b7-01`,
    durationMs: 12.3451,
    caller: {
      kind: 'authenticated',
      issuer: 'https://login.example.com',
      subject: 'alice',
      claims: { name: 'Alice', azp: 'desk', act: { iss: 'https://agents.example.com', sub: 'agent-7' } },
      expiresAt: 0,
    },
    session: 'x',
    target: example.target,
  })
  const real = JSON.parse(line)
  assert.equal(Object.keys(real), Object.keys(example))
  const { time, audit_id, session, ...rest } = example
  assert.equal({ ...real, time, audit_id, session }, { ...rest, time, audit_id, session })
})

test.run()
