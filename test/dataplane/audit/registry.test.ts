/** Checks what a registry's audit log records about reads, writes, syncs and refusals. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Audited, AuditFile } from '../../support/audit/audit-file.ts'
import { eventually } from '../../support/eventually.ts'
import { type AuthzRegistry, startAuthzRegistry } from '../../support/registry/authz.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'

let file: AuditFile
let fixture: AuthzRegistry

test.before(async () => {
  file = await AuditFile.create()
  const audit = {
    enabled: true,
    logFile: file.path,
    component: 'catalog',
    includeRequestData: true,
    includeResponseData: true,
  }
  fixture = await startAuthzRegistry({ config: { audit } })
  const { sources } = await fixture.registry.status()
  const listSources = () => new Set(file.all.map(({ target }) => target?.['source']))
  await eventually('the syncs are recorded', () => sources.every(({ name }) => listSources().has(name)))
})
test.after(async () => {
  await fixture.close()
  await file.remove()
})
test.before.each(() => file.skip())

const summary = ({ type, outcome, error, target }: Audited) =>
  [type, outcome, error, target?.['operation']].filter((part) => part !== undefined).join(' ')

test('syncs are logged with their source', () => {
  const syncs = file.all.filter(({ type }) => type === 'registry_sync')
  assert.ok(syncs.every(({ outcome, target }) => outcome === 'success' && typeof target?.['source'] === 'string'))
  assert.ok(syncs.some(({ target }) => Number(target?.['servers']) > 0))
})

test('a read is logged with the caller and the entry', async () => {
  const token = await fixture.mintToken('platform-writer')
  const headers = {
    authorization: `Bearer ${token}`,
    'x-request-id': 'mine-1',
    traceparent: `00-${TRACE}-00f067aa0ba902b7-01`,
    'user-agent': 'test/1',
  }
  const { status } = await fetch(`${fixture.registry.url}/registry/main/v0.1/servers?search=hunter2`, { headers })
  assert.is(status, 200)
  await fetch(`${fixture.registry.url}/registry/none/v0.1/servers/com.acme%2Fshared/versions/1.0.0`, { headers })
  const [list, absent] = await file.next(2)
  const { time, audit_id, duration_ms, subject, ...rest } = list as Audited
  assert.ok(time !== '' && audit_id !== '' && Number(duration_ms) > 0)
  assert.is(subject?.issuer, fixture.idp.issuer)
  assert.equal(rest, {
    level: 'audit',
    type: 'registry_read',
    outcome: 'success',
    component: 'catalog',
    source: { address: '127.0.0.1', user_agent: 'test/1' },
    target: { operation: 'listServers', http_method: 'GET', registry: 'main' },
    request_id: 'mine-1',
    trace_id: TRACE,
  })
  assert.is(summary(absent as Audited), 'registry_read failure not_found getServerVersion')
  assert.is(absent?.target?.['entry'], 'com.acme/shared')
  assert.not.match(file.text, /hunter2/)
  assert.not.ok(file.text.includes(token.split('.')[2] as string))
})

test('writes are logged with the object and the change, refusals with the caller', async () => {
  const source = { name: 'mine', managed: {}, claims: { org: 'acme' } }
  await fixture.as('platform-admin', 'POST', '/v1/sources', source)
  await fixture.as('outsider', 'POST', '/v1/sources', source)
  await fixture.as('platform-admin', 'DELETE', '/v1/sources/mine')
  await fixture.as('platform-admin', 'GET', '/v1/sources')
  await fixture.as(undefined, 'GET', '/v1/sources')
  await fixture.as('Bearer eyJhbGciOiJIUzI1.eyJzdWIiOiJ4.hunter2', 'GET', '/registry/main/v0.1/servers')
  const events = await file.next(6)
  assert.equal(events.map(summary), [
    'registry_write success createSource',
    'registry_write denied forbidden_role createSource',
    'registry_write success deleteSource',
    'registry_read success listSources',
    'authentication_failed denied unauthenticated',
    'authentication_failed denied unauthenticated',
  ])
  assert.is(events[0]?.target?.['name'], 'mine')
  assert.is(events[2]?.target?.['source'], 'mine')
  assert.equal(JSON.parse(String(events[0]?.data?.request)), source)
  assert.match(String(events[3]?.data?.response), /^\{/)
  assert.not.match(file.text, /hunter2/)
})

test.run()
