import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { PublicError } from '../../dataplane/server/errors.ts'
import { listenAdmin } from '../../dataplane/server/listen/admin.ts'
import type { PorticoOperator } from '../../operator/runtime/loop/controller.ts'
import packageJson from '../../package.json' with { type: 'json' }
import type { Io } from '../command.ts'
import type { ServedAdmission } from './admission.ts'

const version = { version: packageJson.version, node: process.versions.node }
const instance = { 'service.version': packageJson.version, 'service.instance.id': hostname() }

interface Served {
  /** Returns undefined if no webhook is served. */
  readonly admission: () => ServedAdmission | undefined
  readonly io: Pick<Io, 'stop'>
  readonly log: Logger
  readonly group: string
  readonly open: AsyncDisposableStack
}

interface Addresses {
  readonly health: string
  readonly metrics: string
}

/** Listens until `open` is disposed of. `operator` returns undefined while this process waits for the API server. */
export async function serve(
  operator: () => PorticoOperator | undefined,
  addresses: Addresses,
  { admission, io, log, group, open }: Served,
): Promise<Addresses> {
  const ready = () =>
    io.stop.aborted
      ? { reason: 'the operator is stopping' }
      : (operator()?.ready ?? { reason: 'waiting for the API server' })
  const leading = () => operator()?.leading ?? false
  const health = await listenAdmin(addresses.health, {
    ready,
    status: () => ({
      leading: leading(),
      ready: ready(),
      absent: operator()?.absent ?? [],
      admission: admission()?.status(),
    }),
    version: { ...version, apiGroup: group },
    log,
  })
  open.adopt(health, (listener) => listener.close())
  const metrics = await listenAdmin(addresses.metrics, {
    ready,
    status: () => ({ leading: leading() }),
    version,
    metrics(accept) {
      const served = operator()
      if (served === undefined) throw new PublicError('unavailable', { headers: { 'Retry-After': '5' } })
      return served.metrics.text({ 'service.name': 'portico-operator', ...instance }, accept)
    },
    log,
  })
  open.adopt(metrics, (listener) => listener.close())
  return { health: health.url, metrics: metrics.url }
}
