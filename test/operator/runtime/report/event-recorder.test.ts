import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { ApiServer } from '../../../../operator/cluster/kubernetes/api-server.ts'
import { startConditions } from '../../../../operator/reconcile/outcome/plan.ts'
import { EventRecorder } from '../../../../operator/runtime/report/event-recorder.ts'
import { recordLog } from '../../../support/kept-log.ts'

test('an event has no query and no password of a URL, even if it is cut', async () => {
  const written: { note: string }[] = []
  const create = async (_resource: unknown, _namespace: string, body: { note: string }) => void written.push(body)
  const api = { create } as unknown as ApiServer
  const recorder = new EventRecorder(api, 'portico.example/operator', 'i', recordLog().log)
  const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a', uid: 'u' } }
  const key = 's3cr3t-in-a-query'
  const message = `${'x'.repeat(990)} https://user:${key}@host/mcp?key=${key} is away`
  await recorder.record(object as never, { type: 'Warning', reason: 'Away', message })
  await recorder.record(object as never, { type: 'Warning', reason: 'Away', message: message.slice(900) })
  assert.is(written.length, 2)
  for (const { note } of written) assert.not.match(note, /s3cr3t|user/)
  assert.match(written[1]?.note ?? '', 'https://host/mcp is away')
})

test('each event of an object with the longest possible name gets its own name', async () => {
  const written: { metadata: { name: string }; regarding: { name: string } }[] = []
  const create = async (_resource: unknown, _namespace: string, body: (typeof written)[number]) =>
    void written.push(body)
  const recorder = new EventRecorder(
    { create } as unknown as ApiServer,
    'portico.example/operator',
    'i',
    recordLog().log,
  )
  for (const name of ['a'.repeat(253), `${'a'.repeat(218)}.-${'b'.repeat(33)}`, 'short'])
    for (const reason of ['One', 'Two']) {
      const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name, uid: 'u' } }
      await recorder.record(object as never, { type: 'Warning', reason, message: '' })
      assert.is(written.at(-1)?.regarding.name, name)
    }
  const names = written.map(({ metadata }) => metadata.name)
  assert.is(new Set(names).size, 6)
  for (const name of names) {
    assert.ok(name.length <= 253, name)
    assert.match(name, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/)
  }
})

const TOKEN = `eyJhbGciOiJub25lIn0.${'c2VjcmV0'.repeat(4)}.c2VjcmV0c2VjcmV0`
const OPAQUE = 'canary-of-a-header-0123456789'

test('neither events nor conditions tell a credential', async () => {
  const written: { note: string }[] = []
  const create = async (_resource: unknown, _namespace: string, body: { note: string }) => void written.push(body)
  const recorder = new EventRecorder(
    { create } as unknown as ApiServer,
    'portico.example/operator',
    'i',
    recordLog().log,
  )
  const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a', uid: 'u' } }
  const message = `the provider answers {"error":"no ${TOKEN}"} to authorization: Bearer ${OPAQUE}`
  await recorder.record(object as never, { type: 'Warning', reason: 'Away', message })
  const conditions = startConditions({ metadata: { generation: 1 } }, '2026-11-20T11:00:00Z')
  conditions.set('Ready', 'False', 'Away', message)
  for (const text of [written[0]?.note, conditions.get('Ready')?.message]) {
    assert.is(text, 'the provider answers {"error":"no [redacted]"} to authorization: [redacted]')
  }
})

test.run()
