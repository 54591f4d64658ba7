import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type PythonSet, pythonWith } from '../setup/python.ts'
import { eventually } from './eventually.ts'
import { freePort } from './network/free-port.ts'

const run = promisify(execFile)
const scripts = join(import.meta.dirname, 'python')

export interface PythonRun {
  readonly version: string
  readonly tools: readonly string[]
  readonly answers: readonly string[]
}

/** Lists the tools of an endpoint and calls some, with the Python SDK in a separate process. */
export async function pythonClient(
  set: PythonSet,
  url: string,
  mode: 'auto' | 'legacy',
  calls: readonly (readonly [name: string, args: object])[],
): Promise<PythonRun> {
  const python = pythonWith(set)
  const { stdout } = await run(python, [join(scripts, `client_${set}.py`), url, mode, JSON.stringify(calls)])
  return JSON.parse(stdout)
}

export interface FastMcpServer {
  readonly url: string
  close(): Promise<void>
}

/** Runs a FastMCP server in a separate process. */
export async function startFastMcp(): Promise<FastMcpServer> {
  const port = await freePort()
  const python = pythonWith('sdk2')
  const child: ChildProcess = spawn(python, [join(scripts, 'fastmcp_server.py'), String(port)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const url = `http://127.0.0.1:${port}/mcp`
  const answers = () => fetch(url).then(Boolean, () => false)
  await eventually('FastMCP to listen', answers)
  return {
    url,
    async close() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
