import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { GatewayStatus } from '../../../dataplane/config/status.ts'
import type { UpstreamTokens } from '../../../dataplane/credentials/index.ts'
import { serveGateway } from '../../../dataplane/gateway/index.ts'
import { eventually } from '../eventually.ts'
import { recordLog } from '../kept-log.ts'

export interface GatewayUnderTest {
  /** The URL of the MCP endpoint, which ends in `/mcp`. */
  readonly url: string
  readonly base: string
  readonly adminUrl: string
  readonly directory: string
  /** The lines of the log so far. */
  readonly lines: Record<string, unknown>[]
  status(): Promise<GatewayStatus>
  /** Waits until each backend has tools, also if its first answer was a failure. */
  listed(): Promise<void>
  /** Replaces the configuration by a rename, as the kubelet does. */
  configure(config: TestConfig | string): Promise<void>
  close(): Promise<void>
}

/** Telemetry is exported sooner than by default, so that tests do not wait for it. */
const EXPORTS = { spansAfterMs: 30, metricsEveryMs: 60 }

/** A configuration whose usual fields may be left out. */
export type TestConfig = Partial<GatewayConfig> & Pick<GatewayConfig, 'backends'>

/**
 * Serves a gateway in this process and waits until each backend has answered or failed. `prepare` may write files beside
 * the configuration before it starts; `listen` is the address of its MCP endpoint, and `memoryBytes` the memory limit of
 * its process.
 */
export async function startGateway(...options: Parameters<typeof startUntried>): Promise<GatewayUnderTest> {
  const gateway = await startUntried(...options)
  const isEachTried = async () => (await gateway.status()).backends.every(({ health }) => health !== 'unknown')
  try {
    await eventually('an answer or a failure of each backend', isEachTried)
  } catch (error) {
    await gateway.close()
    throw error
  }
  return gateway
}

/** Serves a gateway as `startGateway` does, and waits for no backend. */
export async function startUntried(
  config: TestConfig,
  prepare?: (directory: string) => Promise<void>,
  upstreamTokens?: UpstreamTokens,
  listen = '127.0.0.1:0',
  memoryBytes?: number,
): Promise<GatewayUnderTest> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-gateway-'))
  const configFile = join(directory, 'gateway.yaml')
  await prepare?.(directory)
  await writeFile(configFile, formatConfig(config))
  const { log, lines } = recordLog()
  const listeners = { listen, adminListen: '127.0.0.1:0' }
  const stateDirectory = join(directory, 'state')
  const served = await serveGateway({
    configFile,
    stateDirectory,
    ...listeners,
    log,
    upstreamTokens,
    memoryBytes,
    exports: EXPORTS,
  })
  const status = async () => (await fetch(`${served.adminUrl}/status`)).json() as Promise<GatewayStatus>
  return {
    url: `${served.url}/mcp`,
    base: served.url,
    adminUrl: served.adminUrl,
    directory,
    lines,
    status,
    listed: () =>
      eventually('the tools of each backend', async () => (await status()).backends.every(({ tools }) => tools > 0)),
    async configure(next) {
      await writeFile(`${configFile}.new`, typeof next === 'string' ? next : formatConfig(next))
      await rename(`${configFile}.new`, configFile)
    },
    async close() {
      await served.close()
      await rm(directory, { recursive: true })
    },
  }
}

const formatConfig = (config: TestConfig): string =>
  JSON.stringify({
    name: 'test',
    namespace: 'default',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    ...config,
  })
