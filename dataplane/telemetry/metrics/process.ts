import { type IntervalHistogram, monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import { counter, gauge, type Reading } from './family.ts'

// The names are those of the semantic conventions for processes, Node.js and V8.
const cpuTime = counter('process.cpu.time', 's', 'Processor time that has been used.')
const memoryUsage = gauge('process.memory.usage', 'By', 'Resident memory.')
const uptime = gauge('process.uptime', 's', 'How long the process has run.')
const heapUsed = gauge('v8js.memory.heap.used', 'By', 'Memory of the JavaScript heap in use.')
const heapLimit = gauge('v8js.memory.heap.limit', 'By', 'Most memory that the JavaScript heap may take.')
const utilization = gauge('nodejs.eventloop.utilization', '1', 'Share of the time in which the event loop was busy.')
const delays = (['p50', 'p99', 'max'] as const).map((of) => ({
  of,
  metric: gauge(`nodejs.eventloop.delay.${of}`, 's', `How late the event loop was since it was last read: ${of}.`),
}))

const RESOLUTION_MS = 20
const NANO = 1e9

export class ProcessMeter {
  readonly #delay: IntervalHistogram
  #loop = performance.eventLoopUtilization()

  constructor() {
    this.#delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
    this.#delay.enable()
  }

  read(): readonly Reading[] {
    const { user, system } = process.cpuUsage()
    const heap = getHeapStatistics()
    const loop = performance.eventLoopUtilization()
    const { utilization: busy } = performance.eventLoopUtilization(loop, this.#loop)
    this.#loop = loop
    return [
      { metric: cpuTime, labels: { 'cpu.mode': 'user' }, value: user / 1e6 },
      { metric: cpuTime, labels: { 'cpu.mode': 'system' }, value: system / 1e6 },
      { metric: memoryUsage, labels: {}, value: process.memoryUsage.rss() },
      { metric: uptime, labels: {}, value: process.uptime() },
      { metric: heapUsed, labels: {}, value: heap.used_heap_size },
      { metric: heapLimit, labels: {}, value: heap.heap_size_limit },
      { metric: utilization, labels: {}, value: busy },
      ...this.#delays(),
    ]
  }

  #delays(): readonly Reading[] {
    const delay = this.#delay
    const seconds = { p50: delay.percentile(50), p99: delay.percentile(99), max: delay.max }
    const isEmpty = delay.count === 0
    delay.reset()
    // The timer itself is late by its resolution.
    return delays.map(({ of, metric }) => ({
      metric,
      labels: {},
      value: isEmpty ? 0 : Math.max(0, seconds[of] / NANO - RESOLUTION_MS / 1000),
    }))
  }

  close(): void {
    this.#delay.disable()
  }
}
