import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'

const run = promisify(execFile)
const scripts = join(import.meta.dirname, 'python')
const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'portico', 'python')

/** Sets of packages, each a file of exact versions. */
export type PythonSet = 'sdk1' | 'sdk2' | 'schemathesis'

/**
 * The Python of a virtual environment with these packages: made when it is first needed, kept in the user's cache
 * folder under the hash of its versions. Throws with a hint where the machine has no Python or no venv.
 */
export async function pythonWith(set: PythonSet): Promise<string> {
  const requirements = join(scripts, `${set}.txt`)
  const hash = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 16)
  const folder = join(cache, `${set}-${hash}`)
  if (!existsSync(folder)) await make(folder, requirements)
  return join(folder, 'bin', 'python')
}

/** Whole or not at all: what a test that was killed has left is of no use to the next. */
async function make(folder: string, requirements: string): Promise<void> {
  const draft = `${folder}.${process.pid}`
  await mkdir(cache, { recursive: true })
  try {
    await run('python3', ['-m', 'venv', draft])
    await run(join(draft, 'bin', 'python'), ['-m', 'pip', 'install', '--quiet', '--no-deps', '-r', requirements])
    await rename(draft, folder)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    // Another test file was faster.
    if (existsSync(folder)) return
    throw new Error(`no Python environment: ${(error as Error).message}\n(needs python3 3.10 or newer with venv)`, {
      cause: error,
    })
  }
}

export interface PythonRun {
  readonly version: string
  readonly tools: readonly string[]
  readonly answers: readonly string[]
}

/** Lists the tools of an endpoint and calls some, with Python's SDK in a process of its own. */
export async function pythonClient(
  set: PythonSet,
  url: string,
  mode: 'auto' | 'legacy',
  calls: readonly (readonly [name: string, args: object])[],
): Promise<PythonRun> {
  const python = await pythonWith(set)
  const { stdout } = await run(python, [join(scripts, `client_${set}.py`), url, mode, JSON.stringify(calls)])
  return JSON.parse(stdout)
}

export interface FastMcpServer {
  readonly url: string
  close(): Promise<void>
}

/** A FastMCP server in a process of its own. */
export async function startFastMcp(): Promise<FastMcpServer> {
  const port = await freePort()
  const python = await pythonWith('sdk2')
  const child: ChildProcess = spawn(python, [join(scripts, 'fastmcp_server.py'), String(port)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const url = `http://127.0.0.1:${port}/mcp`
  const answers = () => fetch(url).then(Boolean, () => false)
  await eventually('FastMCP to listen', answers, 60_000)
  return {
    url,
    async close() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
