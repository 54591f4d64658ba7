import { existsSync } from 'node:fs'
import { relative } from 'node:path'
import { type ServedConsole, serveLocalConsole } from '../../console/local.ts'
import { createLog } from '../../dataplane/server/log.ts'
import { listenError } from '../../operator/standalone/ports/local-ports.ts'
import type { Report } from '../../operator/standalone/report.ts'
import { Standalone } from '../../operator/standalone/standalone.ts'
import { type Command, type Given, type Io, UsageError, waitForAbort } from '../command.ts'
import { groupOption, readApiGroup } from '../options/manifests.ts'
import { podTemplateOption, readPodTemplate } from '../options/pod-options.ts'
import { isLoopback, readAddress, readGivenLogLevel } from '../options/serving.ts'
import { quickstartFolder } from '../package-info.ts'
import { changeText, newProblems, overviewText } from './text.ts'

const findQuickstart = () => relative(process.cwd(), quickstartFolder) || '.'

const shortenPath = (path: string) => {
  const fromHere = relative(process.cwd(), path)
  return fromHere.startsWith('..') ? path : fromHere
}

/** Formats a report as one line, in the shape that other programs rely on. */
const formatJsonLine = ({ ready, endpoints, problems }: Report, served: ServedConsole | undefined) =>
  `${JSON.stringify({
    ready,
    endpoints: [
      ...endpoints.map(({ kind, namespace, name, url, admin }) => ({ kind, namespace, name, url, admin })),
      ...(served
        ? [{ kind: 'Console', namespace: 'default', name: 'console', url: served.url, admin: served.url }]
        : []),
    ],
    problems,
    ...(served && { console: { open: served.openUrl() } }),
  })}\n`

/** Reasons of problems of a process; its log may tell more. */
const OF_PROCESSES: ReadonlySet<string> = new Set(['Crashed', 'NotAnswering', 'NotReady'])

interface ReporterOptions {
  readonly isJson: boolean
  readonly paths: readonly string[]
  logFile(): string
  served(): ServedConsole | undefined
}

function createReporter({ isJson, paths, logFile, served }: ReporterOptions, io: Io) {
  let before: Report | undefined
  return {
    onReport(report: Report, changes: readonly string[]) {
      if (isJson) io.out(formatJsonLine(report, served()))
      else if (before) for (const line of changeText(report, before, changes)) io.out(`${line}\n`)
      else io.out(overviewText(report, paths, served()?.openUrl()))
      const problems = newProblems(report, before)
      for (const problem of problems) io.err(`portico: ${problem}`)
      if (!isJson && problems.length > 0 && report.problems.some(({ reason }) => OF_PROCESSES.has(reason)))
        io.err(`portico: more of their output is in ${logFile()}`)
      before = report
    },
    onOpened() {
      if (!isJson) io.out(`console: opened; for another browser: ${served()?.openUrl()}\n`)
      else if (before) io.out(formatJsonLine(before, served()))
    },
  }
}

function readConsole(given: Given): string | undefined {
  const text = given.text('console')
  if (text === undefined || text === 'off') return text
  if (!isLoopback(readAddress(given, 'console') ?? ''))
    throw new UsageError(`--console ${text}: takes a loopback address, such as 127.0.0.1:4480, or off`)
  return text
}

export const command: Command = {
  name: 'run',
  synopsis: '[DIR|FILE …] [options]',
  about: `Runs manifests on this machine, without a cluster: every workload's data plane with the files that its pod would
mount. Prints what is served and how to connect to it. Edits take effect at once; if a manifest is broken, the
command reports a problem and keeps serving the previous version. Ctrl-C stops everything.

Annotations of an MCPServer, with the API group as prefix (portico.dev/local-command):
  local-command  starts the server in place of its image: a shell command, run in the manifest's folder. It serves MCP
                 on $HOST:$PORT, or speaks it on standard input and output where spec.transport is stdio.
  local-path     where it serves MCP. Default: /mcp, for transport sse /sse.
Of everything that is served:
  local-port     fixes the port. Otherwise VirtualMCPServers count up from 4483, registries from 8080.

Default: ${findQuickstart()}.`,
  options: {
    state: {
      type: 'string',
      value: 'DIR',
      description: 'Folder for files and databases; also PORTICO_STATE_DIR. Default: .portico.',
    },
    host: { type: 'string', value: 'HOST', default: '127.0.0.1', description: 'Address to listen on.' },
    output: { type: 'string', value: ['text', 'json'], default: 'text', description: 'Form of the output.' },
    'pod-template': podTemplateOption,
    console: {
      type: 'string',
      value: 'HOST:PORT',
      description: 'Loopback address of the console, or off. Default: 127.0.0.1:4480, or a free port.',
    },
    verbose: {
      type: 'boolean',
      description: 'Shows the output of the processes, too; run.log in the state folder always has it.',
    },
    'api-group': groupOption,
  },
  async run(given, io) {
    const paths = given.positionals.length > 0 ? given.positionals : [findQuickstart()]
    const missing = paths.filter((path) => !existsSync(path))
    for (const path of missing) io.err(`${path}: no such file or folder`)
    if (missing.length > 0) return 1
    // Only the data planes use the level. An invalid one is refused before any of them starts.
    readGivenLogLevel(io)
    const host = given.text('host') ?? '127.0.0.1'
    const obstacle = await listenError(host, 0)
    if (obstacle !== undefined) throw new UsageError(`--host ${host}: this machine can't listen there (${obstacle})`)
    const consoleAddress = readConsole(given)
    const isJson = given.text('output') === 'json'
    let served: ServedConsole | undefined
    const { onReport, onOpened } = createReporter({ isJson, paths, logFile: () => logFile, served: () => served }, io)
    const standalone = new Standalone({
      paths,
      state: given.text('state') ?? (io.env['PORTICO_STATE_DIR'] || '.portico'),
      host,
      group: readApiGroup(given, io),
      ...readPodTemplate(given),
      self: [process.execPath, ...process.execArgv, process.argv[1] ?? ''],
      environment: io.env,
      onReport,
      show: (line) => io.err(line),
      isVerbose: given.flag('verbose'),
      isShown: consoleAddress !== 'off',
    })
    const logFile = shortenPath(standalone.logFile)
    if (!isJson) io.out(`Starting the workloads of ${paths.join(', ')}; the output of the processes is in ${logFile}\n`)
    try {
      served = await serveRunConsole(consoleAddress, {
        viewer: 'This machine',
        places: async () =>
          (await import('../../console/places/machine.ts')).machinePlaces(standalone, paths.join(', ')),
        log: () => createLog({ name: 'console', level: readGivenLogLevel(io) ?? 'warn' }),
        onOpened,
      })
    } catch (error) {
      await standalone.close()
      throw error
    }
    standalone.start()
    await waitForAbort(io.stop)
    await served?.close()
    await standalone.close()
    return 0
  },
}

/** The ports that are tried where nobody has named one; gateways count up from the next. */
const PORTS = [4480, 4481, 4482, 0]

/** Serves the console of `portico run`; returns undefined if it is off. Throws an Error if a named port is taken. */
async function serveRunConsole(
  address: string | undefined,
  options: Omit<Parameters<typeof serveLocalConsole>[0], 'listen'>,
): Promise<ServedConsole | undefined> {
  if (address === 'off') return undefined
  if (address !== undefined) return serveLocalConsole({ ...options, listen: address })
  for (const port of PORTS)
    try {
      return await serveLocalConsole({ ...options, listen: `127.0.0.1:${port}` })
    } catch (error) {
      if (port === 0) throw error
    }
  return undefined
}
