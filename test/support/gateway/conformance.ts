import { spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { endFileOnError } from '../or-fail.ts'
import type { ClientContext } from './conformance-driver.ts'

/** A check of a scenario in the suite's results. */
export interface Check {
  readonly id: string
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'INFO' | 'SKIPPED'
  readonly errorMessage?: string
}

/** The request of the suite's client program (conformance-command.ts). */
interface ToolCall {
  readonly url: string
  readonly context: ClientContext
  readonly scenario: string
}

/** The checks of each scenario that ran. */
export type ConformanceResult = ReadonlyMap<string, readonly Check[]>

/** Returns a line for each failed check of a scenario. */
export const listFailures = (checks: readonly Check[]): string[] =>
  checks.filter(({ status }) => status === 'FAILURE').map(({ id, errorMessage = '' }) => `${id}: ${errorMessage}`)

const SUITE = fileURLToPath(
  new URL('../../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)

const COMMAND = fileURLToPath(new URL('conformance-command.ts', import.meta.url))
const RUNNER = fileURLToPath(new URL('conformance-suite.ts', import.meta.url))

/** Runs the conformance suite's frozen set of server scenarios for a revision against an MCP endpoint. */
export async function runConformance(url: string, requirements: string): Promise<ConformanceResult> {
  return runSuite(['server', '--url', url, '--requirements', requirements])
}

/** Runs server scenarios of extensions, which no revision requires, each against its MCP endpoint. Keeps the order. */
export async function runExtensionScenarios(
  runs: readonly { readonly url: string; readonly scenario: string }[],
): Promise<readonly (readonly Check[])[]> {
  const commands = runs.map(({ url, scenario }) => [
    ...['server', '--url', url, '--scenario', scenario, '--force', '--spec-version', '2026-07-28'],
  ])
  const results = await runSuites(commands)
  return results.map((found, index) => found.get(runs[index]?.scenario ?? '') ?? [...found.values()].flat())
}

/** Tells whether a server scenario belongs to an extension, which no revision requires. */
export const isOfExtension = (scenario: string): boolean => /^(tasks|sep-2640)-/.test(scenario)

/** Returns the names of all server scenarios of the installed suite. */
export async function serverScenarios(): Promise<readonly string[]> {
  const child = spawn(process.execPath, [SUITE, 'list', '--server'], { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  for await (const chunk of child.stdout) output += String(chunk)
  const [servers = ''] = output.split('Client scenarios')
  return [...servers.matchAll(/^ {2}- (\S+) \[/gm)].map(([, name = '']) => name)
}

/**
 * Runs client scenarios of the suite, all at once. `drive` is the client. It gets the URL of the suite's server for one
 * scenario, the suite's settings, and the name of the scenario.
 */
export async function runClientScenarios(
  scenarios: readonly string[],
  drive: (url: string, context: ClientContext, scenario: string) => Promise<void>,
): Promise<ConformanceResult> {
  const server = createServer(
    endFileOnError(async (request: IncomingMessage, response: ServerResponse) => {
      const { url, context, scenario } = (await json(request)) as ToolCall
      await drive(url, context, scenario).catch((error: unknown) => {
        console.error(error)
        response.statusCode = 500
      })
      response.end()
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  // The suite cannot run a list of scenarios: for the others, the shell command does nothing.
  const command = `exec ${process.execPath} ${COMMAND} http://127.0.0.1:${port} "$0"`
  const chosen = `sh -c 'case $MCP_CONFORMANCE_SCENARIO in ${scenarios.join('|')}) ${command} ;; esac'`
  try {
    return await runSuite(['client', '--suite', 'all', '--command', chosen])
  } finally {
    server.close()
  }
}

/**
 * Runs the suite's scenarios for authorization servers with a public client, whose redirect URI is
 * `http://127.0.0.1:PORT/callback`. `visit` stands for the person at the browser and gets a URL.
 */
export function runAuthorizationScenarios(
  { issuer, clientId, resource, port }: Readonly<Record<'issuer' | 'clientId' | 'resource', string>> & { port: number },
  visit: (url: string) => Promise<void>,
): Promise<ConformanceResult> {
  const client = ['--client-id', clientId, '--resource', resource, '--port', String(port)]
  return runSuite(['authorization', '--url', issuer, ...client], (line) => {
    if (!/^https?:\/\/\S+\?\S*\bcode_challenge=/.test(line)) return
    visit(line).catch((error: unknown) => console.error(error))
  })
}

/** Runs one command line of the suite, and calls `onLine` with each line of its output. */
async function runSuite(suiteArgs: readonly string[], onLine?: (line: string) => void): Promise<ConformanceResult> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-conformance-'))
  try {
    const output = await runNode([SUITE, ...suiteArgs, '-o', directory], onLine)
    return await readResults(directory, output)
  } finally {
    await rm(directory, { recursive: true })
  }
}

/** Runs command lines of the suite in one process, one after another. */
async function runSuites(commands: readonly (readonly string[])[]): Promise<readonly ConformanceResult[]> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-conformance-'))
  try {
    const folders = commands.map((_, index) => join(directory, `${index}`))
    const lines = commands.map((command, index) => [...command, '-o', folders[index]])
    const output = await runNode([RUNNER, SUITE, JSON.stringify(lines)])
    return await Promise.all(folders.map((folder) => readResults(folder, output)))
  } finally {
    await rm(directory, { recursive: true })
  }
}

/** Runs Node to its end, and returns its standard error. */
async function runNode(args: readonly string[], onLine?: (line: string) => void): Promise<string> {
  const flags = ['--disable-warning=ExperimentalWarning']
  const child = spawn(process.execPath, [...flags, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  createInterface({ input: child.stdout }).on('line', (line) => onLine?.(line.trim()))
  let output = ''
  child.stderr.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  await new Promise((resolve) => child.once('close', resolve))
  return output
}

/** Reads the results in a folder. Throws `said` if there are none. */
async function readResults(directory: string, output: string): Promise<ConformanceResult> {
  const results = new Map<string, readonly Check[]>()
  for (const file of await readdir(directory, { recursive: true }).catch(() => [])) {
    const [, scenario] =
      /^(?:.*?\/)??(?:server-)?((?:auth\/)?[^/]+?)-\d{4}-\d{2}-\d{2}T[^/]*\/checks\.json$/.exec(file) ?? []
    if (scenario === undefined) continue
    results.set(scenario, JSON.parse(await readFile(join(directory, file), 'utf8')) as readonly Check[])
  }
  if (results.size === 0) throw new Error(`the suite ran nothing: ${output}`)
  return results
}
