import type { Logger } from 'pino'
import { listen } from '../dataplane/server/listen/listen.ts'
import type { Places } from './places/place.ts'
import { LocalDoors } from './session/local.ts'

interface LocalConsoleOptions {
  /** Makes the place that is shown, when somebody looks for the first time. */
  readonly places: () => Promise<Places>
  /** `HOST:PORT`, a loopback address. */
  readonly listen: string
  /** The name under which the viewer is shown. */
  readonly viewer: string
  readonly log: () => Logger
  /** Called when a link was used, and the next one is there. */
  readonly onOpened?: () => void
}

export interface ServedConsole {
  readonly url: string
  /** Returns the URL that lets one browser in; another one after it was used. */
  openUrl(): string
  close(): Promise<void>
}

/**
 * Serves the console to one's own machine. Its pages are loaded with the first request: until then it is a listener and
 * a secret. Throws an Error that names the address if it is not available.
 */
export async function serveLocalConsole(options: LocalConsoleOptions): Promise<ServedConsole> {
  const doors = new LocalDoors({ name: options.viewer, onOpened: options.onOpened })
  let places: Places | undefined
  let loading: Promise<{ fetch(request: Request, env: unknown): Response | Promise<Response> }> | undefined
  const load = async () => {
    const { consoleApp } = await import('./endpoint/app.ts')
    places = await options.places()
    return consoleApp({ places, doors, names: new Set(), origin: undefined, log: options.log() })
  }
  const listener = await listen(async (request, env) => {
    const app = await (loading ??= load())
    return app.fetch(request, env)
  }, options.listen)
  doors.listensOn(listener.port)
  return {
    url: listener.url,
    openUrl: () => doors.openUrl(listener.url),
    async close() {
      await listener.close(0)
      await places?.close()
    },
  }
}
