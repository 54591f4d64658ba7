import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Shipped } from './image.ts'
import { type Process, startProcess } from './process.ts'

export interface Gateway extends Process {
  readonly origin: string
  readonly adminOrigin: string
  /** Replaces its configuration, as the kubelet does: by rename. */
  configure(config: object): Promise<void>
}

const READY = /^\{.*"msg":"the gateway serves".*\}$/m
const ANYWHERE = '127.0.0.1:0'
const FILLED = { name: 'bench', namespace: 'default', role: 'gateway', incomingAuth: { type: 'anonymous' } }
let started = 0

/**
 * Starts the gateway of a checkout by the command line of its image. Missing name, namespace, role and authentication
 * (none) are filled in. Rejects with the findings of an invalid configuration. `listen`: its address, if others need to
 * know it before.
 */
export async function startGateway(
  { command }: Shipped,
  directory: string,
  config: object,
  env: Readonly<Record<string, string>> = {},
  listen = ANYWHERE,
): Promise<Gateway> {
  const file = join(directory, `gateway-${started++}.json`)
  const configure = async (next: object) => {
    await writeFile(`${file}.new`, JSON.stringify({ ...FILLED, ...next }))
    await rename(`${file}.new`, file)
  }
  await configure(config)
  const line = [...command, 'serve', 'gateway', '--config', file, '--listen', listen, '--admin-listen', ANYWHERE]
  const process = await startProcess(line, { NODE_ENV: 'production', ...env }, READY)
  const { url, adminUrl } = JSON.parse(READY.exec(process.output)?.[0] as string)
  return { ...process, origin: new URL(url).origin, adminOrigin: new URL(adminUrl).origin, configure }
}
