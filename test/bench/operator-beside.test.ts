import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compare, readPhases } from '../../bench/operator/beside.ts'

/** What run.ts prints of a phase. */
const printed = (title: string, seconds: number, requests: number, memory = 200) =>
  `\n${title}\n  ${seconds.toFixed(1)} s, 12.3 CPU s (40.0 of the control plane), ${requests} requests (patch ${requests}), 150 MiB (80 its own), ${memory} at its highest\n    550  patch configmaps\n`
const measured = (...args: Parameters<typeof printed>) => readPhases(printed(...args))

test('figures are read by phase, in what else is printed', () => {
  const phases = readPhases(`dist: 460 files, 11.5 MB\n${printed('from nothing', 30.1, 4000)}${printed('idle', 0, 3)}`)
  assert.equal([...phases.keys()], ['from nothing', 'idle'])
  assert.equal(phases.get('from nothing'), {
    'time, s': 30.1,
    'CPU of the operator, s': 12.3,
    'CPU of the control plane, s': 40,
    requests: 4000,
    'memory at its highest, MiB': 200,
  })
  assert.throws(() => readPhases('another format'), 'no phase is told')
})

test('lost is what is above in every run, and by more than what is nothing', () => {
  const before = [measured('a', 30, 4000), measured('a', 31.5, 4001), measured('a', 31, 4000)]
  const lost = (...after: ReturnType<typeof measured>[]) => compare(before, after).lost
  assert.equal(lost(measured('a', 31, 4000), measured('a', 40, 4000), measured('a', 33, 4000)), [], 'one was not above')
  assert.equal(lost(measured('a', 31.7, 4002), measured('a', 31.7, 4002), measured('a', 31.7, 4002)), [], 'alike')
  assert.equal(lost(measured('a', 40, 4000), measured('a', 41, 4000), measured('a', 42, 5000)), ['a: time, s'])
  assert.equal(lost(measured('a', 30, 5000, 300), measured('a', 30, 5000, 300), measured('a', 30, 5000, 300)), [
    'a: requests',
    'a: memory at its highest, MiB',
  ])
  const { lines } = compare(before, [measured('a', 62, 4000)])
  assert.match(lines.join('\n'), /time, s +30 31.5 31 \| 62 +2\.00 LOST/)
})

test.run()
