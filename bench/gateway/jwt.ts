/**
 * Compares calls with JWTs of 64 callers, and with a credential of each caller for the backends, with anonymous calls.
 * Goals: at least 90 % of the anonymous calls per CPU-second with JWTs, 85 % with exchanged tokens or tokens of a
 * provider. Refreshes of callers' lists, which go by the clock, are switched off. Provider tokens come from a file,
 * which `portico serve` does not read: that gateway and the anonymous one beside it run from their sources. Usage:
 * jwt.ts [seconds a start] [starts]
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runBench } from '../shipped/bench.ts'
import { buildOidc, startSurroundings } from '../shipped/features.ts'
import { gatewayName, measureCosts, printGoal, printRows, type Target } from '../shipped/measure.ts'
import { gatewayTarget, namedBackends } from '../shipped/portico.ts'
import { start } from './parts.ts'

const SECONDS = Number(process.argv[2] ?? 2)
const STARTS = Number(process.argv[3] ?? 9)
/** The lists of callers are asked for at the start alone. */
const LONG = { failureHandling: { healthCheckInterval: '1h' } }
const PROVIDER = 'code'
const FROM_SOURCES = 'sources anonymous'
const GOALS = [
  { name: 'JWT', of: 'anonymous', most: 1 / 0.9 },
  { name: 'exchange', of: 'anonymous', most: 1 / 0.85 },
  { name: 'upstreamInject', of: FROM_SOURCES, most: 1 / 0.85 },
]

const surroundings = await startSurroundings()
const { issuer, subjects, tokens } = surroundings
try {
  await runBench(async ({ shipped, directory }) => {
    const oidc = { incomingAuth: buildOidc(surroundings) }
    const exchange = { credential: { type: 'tokenExchange', tokenExchange: { tokenUrl: `${issuer}/token` } } }
    const inject = { credential: { type: 'upstreamInject', upstreamInject: { providerName: PROVIDER } } }
    const logins = join(directory, 'logins.json')
    await writeFile(logins, JSON.stringify({ issuer, provider: PROVIDER, accessToken: 'x'.repeat(900), subjects }))

    const fromSources = (name: string, settings: object, ofBackends: object, its: readonly string[], file?: string) =>
      ({
        name,
        async start(_era, backends) {
          const config = { name: 'bench', namespace: 'default', role: 'gateway', ...LONG, ...settings }
          const configFile = join(directory, `${name.replaceAll(' ', '-')}.json`)
          await writeFile(configFile, JSON.stringify({ ...config, backends: namedBackends(backends, ofBackends) }))
          const script = new URL('gateway-process.ts', import.meta.url)
          const part = await start(script, configFile, ...(file === undefined ? [] : [file]))
          const { pid, origin } = part
          return {
            pid,
            origin,
            name: gatewayName(),
            hasSessions: true,
            tokens: its,
            end: () => part.child.disconnect(),
          }
        },
      }) satisfies Target
    const target = (name: string, settings: object, its: readonly string[], ofBackends: object = {}) =>
      gatewayTarget({ name, shipped, directory, settings: { ...LONG, ...settings }, ofBackends, tokens: its })
    const targets = [
      target('anonymous', {}, []),
      target('JWT', oidc, tokens),
      target('exchange', oidc, tokens, exchange),
      fromSources(FROM_SOURCES, { incomingAuth: { type: 'anonymous' } }, {}, []),
      fromSources('upstreamInject', oidc, inject, tokens, logins),
    ]
    const extent = {
      eras: ['modern', 'legacy'],
      kinds: ['call'],
      starts: STARTS,
      seconds: SECONDS,
      warm: 20_000,
    } as const
    const rows = await measureCosts(targets, extent, (found) =>
      printRows(found, (name) => GOALS.filter((goal) => goal.name === name).map(({ of }) => ({ name: of, as: of }))),
    )
    for (const goal of GOALS) printGoal(rows, goal)
  })
} finally {
  surroundings.close()
}
