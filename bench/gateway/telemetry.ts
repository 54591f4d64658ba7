/**
 * Compares calls with telemetry with calls without: 5 % of traces and all metrics sent by OTLP each second, the same
 * with Prometheus scraping each second, and every trace. Goal: at least 85 % of the calls per CPU-second. Usage:
 * telemetry.ts [seconds a start] [starts]
 */
import { runBench } from '../shipped/bench.ts'
import { buildOpenTelemetry, startSurroundings } from '../shipped/features.ts'
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
    const openTelemetry = buildOpenTelemetry(surroundings)
    const targets = [
      target(WITHOUT),
      target(FEW, { openTelemetry }),
      target(FETCHED, { openTelemetry, prometheus: { enabled: true } }),
      target('every trace', { openTelemetry: buildOpenTelemetry(surroundings, '1.0') }),
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
