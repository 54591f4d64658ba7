import type { Logger } from 'pino'
import { type ServedConsole, serveLocalConsole } from '../../console/local.ts'
import type { LocalSource } from '../../console/places/machine.ts'

/** The ports that are tried where nobody has named one; gateways count up from the next. */
const PORTS = [4480, 4481, 4482, 0]

interface RunConsoleOptions {
  readonly address: string | undefined
  readonly source: LocalSource
  readonly title: string
  readonly log: () => Logger
  readonly onOpened: () => void
}

/** Serves the console of `portico run`; returns undefined if it is off. Throws an Error if a named port is taken. */
export async function serveRunConsole({
  address,
  source,
  title,
  log,
  onOpened,
}: RunConsoleOptions): Promise<ServedConsole | undefined> {
  if (address === 'off') return undefined
  const options = {
    viewer: 'This machine',
    onOpened,
    places: async () => (await import('../../console/places/machine.ts')).machinePlaces(source, title),
    log,
  }
  if (address !== undefined) return serveLocalConsole({ ...options, listen: address })
  for (const port of PORTS)
    try {
      return await serveLocalConsole({ ...options, listen: `127.0.0.1:${port}` })
    } catch (error) {
      if (port === 0) throw error
    }
  return undefined
}
