import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compare, readPhases } from '../../bench/operator/beside.ts'

/** Returns the output of run.ts for a phase. */
const printPhases = (title: string, seconds: number, requests: number, memory = 200) =>
  `\n${title}\n  ${seconds.toFixed(1)} s, 12.3 CPU s (40.0 of the control plane), ${requests} requests (patch ${requests}), 150 MiB (80 its own), ${memory} at its highest\n    550  patch configmaps\n`
const parsePrinted = (...args: Parameters<typeof printPhases>) => readPhases(printPhases(...args))

test('figures are read by phase, in what else is printed', () => {
  const phases = readPhases(
    `dist: 460 files, 11.5 MB\n${printPhases('from nothing', 30.1, 4000)}${printPhases('idle', 0, 3)}`,
  )
  assert.equal([...phases.keys()], ['from nothing', 'idle'])
  assert.equal(phases.get('from nothing'), {
    'time, s': 30.1,
    'CPU of the operator, s': 12.3,
    'CPU of the control plane, s': 40,
    requests: 4000,
    'memory at its highest, MiB': 200,
  })
  assert.throws(() => readPhases('another format'), 'no phase is printed')
})

test('a figure is lost if it is higher in every run, by more than the noise', () => {
  const before = [parsePrinted('a', 30, 4000), parsePrinted('a', 31.5, 4001), parsePrinted('a', 31, 4000)]
  const listLost = (...after: ReturnType<typeof parsePrinted>[]) => compare(before, after).lost
  assert.equal(
    listLost(parsePrinted('a', 31, 4000), parsePrinted('a', 40, 4000), parsePrinted('a', 33, 4000)),
    [],
    'one ratio is not above the limit',
  )
  assert.equal(
    listLost(parsePrinted('a', 31.7, 4002), parsePrinted('a', 31.7, 4002), parsePrinted('a', 31.7, 4002)),
    [],
    'both are equal',
  )
  assert.equal(listLost(parsePrinted('a', 40, 4000), parsePrinted('a', 41, 4000), parsePrinted('a', 42, 5000)), [
    'a: time, s',
  ])
  assert.equal(
    listLost(parsePrinted('a', 30, 5000, 300), parsePrinted('a', 30, 5000, 300), parsePrinted('a', 30, 5000, 300)),
    ['a: requests', 'a: memory at its highest, MiB'],
  )
  const { lines } = compare(before, [parsePrinted('a', 62, 4000)])
  assert.match(lines.join('\n'), /time, s +30 31.5 31 \| 62 +2\.00 LOST/)
})

test.run()
