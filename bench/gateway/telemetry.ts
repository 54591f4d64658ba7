/**
 * What telemetry costs beside the same calls without any, in one run and in turn: 5 % of the traces and all metrics by
 * OTLP to a receiver, every second, and the same with Prometheus fetching them every second as well; and the most that may
 * be asked for, every trace. Modern era; every answer checked. Goal: at least 85 % of the calls a CPU-second without.
 * Usage: telemetry.ts [seconds a start] [starts]
 */
import { runBench } from '../shipped/bench.ts'
import { openTelemetryOf, startSurroundings } from '../shipped/features.ts'
import { measureCosts, printGoal, printRows } from '../shipped/measure.ts'
import { gatewayTarget } from '../shipped/portico.ts'

const SECONDS = Number(process.argv[2] ?? 2)
const STARTS = Number(process.argv[3] ?? 9)
const WITHOUT = 'no telemetry'
const FEW = '5 % of traces'
const FETCHED = '5 %, Prometheus'

const surroundings = await startSurroundings()
try {
  await runBench(async ({ shipped, directory }) => {
    const target = (name: string, telemetry?: object) =>
      gatewayTarget({ name, shipped, directory, settings: telemetry === undefined ? {} : { telemetry } })
    const openTelemetry = openTelemetryOf(surroundings)
    const targets = [
      target(WITHOUT),
      target(FEW, { openTelemetry }),
      target(FETCHED, { openTelemetry, prometheus: { enabled: true } }),
      target('every trace', { openTelemetry: openTelemetryOf(surroundings, '1.0') }),
    ]
    const extent = { eras: ['modern'], kinds: ['call'], starts: STARTS, seconds: SECONDS, warm: 20_000 } as const
    const rows = await measureCosts(targets, extent, (found) =>
      printRows(found, (name) => (name === WITHOUT ? [] : [{ name: WITHOUT, as: WITHOUT }])),
    )
    if (surroundings.received() === 0) throw new Error('nothing was sent')
    for (const name of [FEW, FETCHED]) printGoal(rows, { name, of: WITHOUT, most: 1 / 0.85 })
  })
} finally {
  surroundings.close()
}
