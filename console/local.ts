import type { Logger } from 'pino'
import { listen } from '../dataplane/server/listen/listen.ts'
import type { Places } from './places/place.ts'
import { LocalSessions } from './session/local.ts'

interface LocalConsoleOptions {
  /** Creates the place to show, at the first request. */
  readonly places: () => Promise<Places>
  /** `HOST:PORT` with a loopback address. */
  readonly listen: string
  /** The displayed name of the viewer. */
  readonly viewer: string
  readonly log: () => Logger
  /** Called when a one-time link was used and replaced by the next one. */
  readonly onOpened?: () => void
}

export interface ServedConsole {
  readonly url: string
  /** Returns the current one-time URL, which admits one browser. */
  openUrl(): string
  close(): Promise<void>
}

/**
 * Serves the console on the viewer's own machine. Pages are loaded with the first request, so until then only a
 * listener and a secret exist. Throws an Error that names the address if it is in use.
 */
export async function serveLocalConsole(options: LocalConsoleOptions): Promise<ServedConsole> {
  const sessions = new LocalSessions({ name: options.viewer, onOpened: options.onOpened })
  let places: Places | undefined
  let loading: Promise<{ fetch(request: Request, env: unknown): Response | Promise<Response> }> | undefined
  const load = async () => {
    const { consoleApp } = await import('./endpoint/app.ts')
    places = await options.places()
    return consoleApp({ places, sessions, names: new Set(), origin: undefined, log: options.log() })
  }
  const listener = await listen(async (request, env) => {
    const app = await (loading ??= load())
    return app.fetch(request, env)
  }, options.listen)
  sessions.listensOn(listener.port)
  return {
    url: listener.url,
    openUrl: () => sessions.openUrl(listener.url),
    async close() {
      await listener.close(0)
      await places?.close()
    },
  }
}
