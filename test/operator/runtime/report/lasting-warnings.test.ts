import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { KubernetesObject } from '../../../../operator/model/view.ts'
import { LastingWarnings } from '../../../../operator/runtime/report/event-recorder.ts'
import { eventually } from '../../../support/eventually.ts'

interface ConditionText {
  readonly name: string
  readonly reason: string
  readonly message: string
}

const warning = (reason: string, message = 'first') => ({ type: 'Warning' as const, reason, message })

function object(name: string, ...conditions: readonly (readonly [string, string, string, string])[]): KubernetesObject {
  const objects = conditions.map(([type, status, reason, message]) => ({ type, status, reason, message }))
  return { apiVersion: 'v1', kind: 'Thing', metadata: { name, uid: name }, status: { conditions: objects } }
}

/** Returns the events that are written before the last, lasting warning is. */
async function listWritten(
  now: readonly KubernetesObject[],
  tell: (warnings: LastingWarnings) => void,
): Promise<readonly ConditionText[]> {
  const last = object('last', ['Ready', 'False', 'Last', ''])
  const there = new Map([...now, last].map((one) => [one.metadata.uid, one]))
  const written: ConditionText[] = []
  const warnings = new LastingWarnings({
    current: ({ metadata }) => there.get(metadata.uid),
    write: ({ metadata }, { reason, message }) => void written.push({ name: metadata.name, reason, message }),
    lasts: 20,
  })
  tell(warnings)
  warnings.tell(last, warning('Last'))
  // Timers of the same duration fire in the order in which they were set.
  await eventually('the last one is written', () => written.some(({ name }) => name === 'last'))
  return written.filter(({ name }) => name !== 'last')
}

test('a problem that has healed or gone meanwhile gets no event', async () => {
  const healed = object('healed', ['Ready', 'True', 'Ready', ''], ['Missing', 'False', 'AllFound', ''])
  const written = await listWritten([healed], (warnings) => {
    warnings.tell(object('healed'), warning('Missing'))
    warnings.tell(object('gone'), warning('Missing'))
  })
  assert.equal(written, [])
})

test('a lasting problem gets one event for each reason, with the latest message of its condition', async () => {
  const lasting = object('lasting', ['Ready', 'False', 'Missing', 'one of two'], ['Blocked', 'True', 'InUse', 'by a'])
  const written = await listWritten([lasting], (warnings) => {
    warnings.tell(object('lasting'), warning('Missing', 'two'))
    warnings.tell(object('lasting'), warning('Blocked', 'by a and b'))
    warnings.tell(object('lasting'), warning('Missing', 'again'))
  })
  assert.equal(written, [
    { name: 'lasting', reason: 'Missing', message: 'one of two' },
    { name: 'lasting', reason: 'Blocked', message: 'by a' },
  ])
})

test.run()
