import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { BackendConfig } from '../../../config/gateway.ts'
import { createDispatcher } from '../../../net/connect.ts'
import type { Share } from '../../../server/budget.ts'
import { attachChannel } from '../channel/attach-channel.ts'
import { type OpenChannel, withPauses } from '../channel/channel.ts'
import { ChannelDispatcher } from '../channel/channel-dispatcher.ts'
import { childChannel } from '../channel/child-channel.ts'
import { sseChannel } from '../channel/sse-channel.ts'
import { approvedTransport, HttpTransport, MOST_CALLS, type Transport } from '../connection/http.ts'

interface TransportOptions {
  readonly config: BackendConfig
  /** The folder that paths of the configuration are relative to. */
  readonly directory: string
  readonly log: Logger
  readonly share: Share
}

/** The most streams. Each session with a message subscription holds one. */
const MOST_STREAMS = 16_384

/** Returns the address shown to operators and, over HTTP, used for requests. */
export function findAddress({ name, url, stdio }: BackendConfig): URL {
  if (url !== undefined) return new URL(url)
  const { attach } = stdio ?? {}
  return new URL(
    attach === undefined
      ? `stdio:${encodeURIComponent(name)}`
      : `stdio://${attach.namespace}/${attach.pod}/${attach.container}`,
  )
}

/** Builds the transport to a backend without opening a connection. */
export function createTransport(options: TransportOptions): Transport {
  const { config, directory, log, share } = options
  if (config.transport === 'stdio')
    return new ChannelDispatcher({ open: withPauses(stdioChannel(options)), shared: true, log })
  const url = findAddress(config)
  const pool = (connections: number) =>
    createDispatcher({
      origin: url.origin,
      caBundleFile: config.caBundleFile === undefined ? undefined : resolve(directory, config.caBundleFile),
      allowPrivateIP: config.allowPrivateIP ?? true,
      connections,
    })
  const http = new HttpTransport(pool(MOST_CALLS), pool(MOST_STREAMS))
  if (config.transport !== 'sse') return config.enforcesPins === true ? approvedTransport(http) : http
  const open = sseChannel({ url, dispatcher: http, share })
  return new ChannelDispatcher({ open, shared: false, log, release: () => http.destroy() })
}

function stdioChannel({ config, directory, log }: TransportOptions): OpenChannel {
  const { stdio = {} } = config
  const { attach, command } = stdio
  if (attach !== undefined) return attachChannel({ attach, directory, log })
  if (command === undefined) throw new TypeError(`backend ${config.name}: stdio needs a command or attach`)
  return childChannel({ stdio: { ...stdio, command }, directory, log })
}
