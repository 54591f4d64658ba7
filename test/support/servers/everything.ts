import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { eventually } from '../eventually.ts'
import { freePort } from '../network/free-port.ts'

export interface EverythingServer {
  readonly url: string
  close(): Promise<void>
}

const SCRIPT = fileURLToPath(
  new URL('../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url),
)

/** Starts the reference server of the legacy era from its npm package. */
export async function startEverything(): Promise<EverythingServer> {
  const port = await freePort()
  const child = spawn(process.execPath, [SCRIPT, 'streamableHttp'], {
    env: { ...process.env, PORT: String(port) },
    stdio: 'ignore',
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const url = `http://127.0.0.1:${port}/mcp`
  await eventually('server-everything to listen', () => fetch(url).then(Boolean, () => false))
  return {
    url,
    close: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}
